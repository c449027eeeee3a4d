{{/*
Values that cannot work, each with one sentence and the next step.
What one value alone can show (a wrong word, a number out of range) is in values.schema.json.
*/}}
{{- define "gpugauge.validate" -}}
{{- $v := .Values -}}
{{- $privileged := eq $v.security.preset "privileged" -}}
{{- if not $v.hostPID -}}
{{- fail "Without the host's PID namespace no other pod is seen. Remove hostPID=false; the agent cannot work without it." -}}
{{- end -}}
{{- $modes := list (dig "attach" "mode" "auto" $v.settings) -}}
{{- if $v.canary.enabled -}}
{{- $modes = append $modes (dig "attach" "mode" "auto" $v.canary.settings) -}}
{{- end -}}
{{- if and (has "perf" $modes) (not $privileged) (not $v.security.sysAdmin) -}}
{{- fail "The attach mode perf needs SYS_ADMIN, which the preset `capabilities` does not hold. Set security.sysAdmin=true, or leave settings.attach.mode at auto." -}}
{{- end -}}
{{- if and (eq $v.driver.access "hostPath") (not $privileged) -}}
{{- fail "Only a privileged container may open /dev/nvidia* by a host path. Set security.preset=privileged, or another driver.access." -}}
{{- end -}}
{{- if and (eq $v.driver.access "cdi") (not $v.driver.cdiDevice) -}}
{{- fail "driver.access=cdi names no device. Set driver.cdiDevice, for instance to management.nvidia.com/gpu=all." -}}
{{- end -}}
{{- if and (eq $v.driver.access "runtimeClass") (not $v.driver.runtimeClassName) -}}
{{- fail "driver.access=runtimeClass names no class. Set driver.runtimeClassName, for instance to nvidia." -}}
{{- end -}}
{{- if and $v.api.exposed (not $v.api.token.secretName) (not $v.api.token.value) -}}
{{- fail "An exposed API needs a token. Set api.token.secretName to a Secret that holds one, or leave api.exposed=false." -}}
{{- end -}}
{{- if and (not $v.api.exposed) (or $v.api.token.secretName $v.api.token.value) -}}
{{- fail "A token is given, but the API is not exposed. Set api.exposed=true, or remove api.token." -}}
{{- end -}}
{{- if and $v.api.token.secretName $v.api.token.value -}}
{{- fail "Two tokens are given. Set one of api.token.secretName and api.token.value." -}}
{{- end -}}
{{- if and $v.podMonitor.enabled $v.serviceMonitor.enabled -}}
{{- fail "A PodMonitor and a ServiceMonitor would scrape every agent twice. Enable one of podMonitor and serviceMonitor." -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled (not $v.service.enabled) -}}
{{- fail "A ServiceMonitor finds agents by their Service. Set service.enabled=true, or use podMonitor." -}}
{{- end -}}
{{- if and (eq $v.nodes.withGpuOnly "always") (dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "" $v.affinity) -}}
{{- fail "Both nodes.withGpuOnly=always and affinity.nodeAffinity choose nodes. Keep one of them." -}}
{{- end -}}
{{- $managed := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" -}}
{{- range $labels := list $v.podLabels $v.commonLabels -}}
{{- range $key, $_ := $labels -}}
{{- if has $key $managed -}}
{{- fail (printf "The label %s is the chart's own. Remove it from podLabels and commonLabels." $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $one := $v.extraEnv -}}
{{- if has $one.name (list "GPUGAUGE_SETTINGS" "GPUGAUGE_NODE_NAME" "NVIDIA_VISIBLE_DEVICES" "NVIDIA_DRIVER_CAPABILITIES" "NVIDIA_MIG_MONITOR_DEVICES") -}}
{{- fail (printf "The variable %s is the chart's own. Remove it from extraEnv; driver.access and settings decide it." $one.name) -}}
{{- end -}}
{{- end -}}
{{- $addresses := list (dig "listen" "address" "" $v.settings) (dig "listen" "address" "" $v.canary.settings) -}}
{{- range $address := $addresses -}}
{{- if or (hasPrefix "127." $address) (has $address (list "localhost" "::1")) -}}
{{- fail "The kubelet's probes and Prometheus do not reach the loopback. Remove settings.listen.address, or give an address of the pod." -}}
{{- end -}}
{{- end -}}
{{- if and (or $v.podEvents.enabled $v.loadScore.enabled) (eq (dig "kubernetes" "mode" "auto" $v.settings) "off") -}}
{{- fail "podEvents and loadScore write to the API server, which settings.kubernetes.mode=off forbids. Remove the setting, or disable them." -}}
{{- end -}}
{{- end -}}
