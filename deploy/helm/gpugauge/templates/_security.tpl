{{/* What the container may. Each capability has its row in docs/permissions.md. */}}
{{- define "gpugauge.securityContext" -}}
{{- $security := .Values.security -}}
runAsUser: 0
runAsGroup: 0
readOnlyRootFilesystem: true
{{- if eq $security.preset "privileged" }}
privileged: true
{{- else }}
privileged: false
{{- /* Without SYS_ADMIN the API server refuses "false" beside it. */}}
{{- if not $security.sysAdmin }}
allowPrivilegeEscalation: false
{{- end }}
capabilities:
  drop: [ALL]
  add:
    - BPF
    - PERFMON
    - SYS_PTRACE
    - CHECKPOINT_RESTORE
    - DAC_READ_SEARCH
    - SETUID
    - SETGID
    - KILL
    {{- if $security.sysAdmin }}
    - SYS_ADMIN
    {{- end }}
{{- end }}
seccompProfile:
  type: {{ $security.seccomp }}
{{- /* Before 1.30 the profile is an annotation of the pod. */}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
appArmorProfile:
  type: {{ $security.appArmor }}
{{- end }}
{{- with $security.seLinuxType }}
seLinuxOptions:
  type: {{ . }}
{{- end }}
{{- end -}}

{{/* Annotations of a pod that are part of its rights or devices. */}}
{{- define "gpugauge.podAnnotations" -}}
{{- $v := .Values -}}
{{- if semverCompare "<1.30-0" .Capabilities.KubeVersion.Version }}
container.apparmor.security.beta.kubernetes.io/agent: {{ ternary "unconfined" "runtime/default" (eq $v.security.appArmor "Unconfined") }}
{{- end }}
{{- if eq $v.driver.access "cdi" }}
nvidia.cdi.k8s.io/container.agent: {{ $v.driver.cdiDevice | quote }}
{{- end }}
{{- with $v.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
