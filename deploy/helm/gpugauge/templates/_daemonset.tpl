{{/* A DaemonSet. Takes: root, pool ("agent" or "canary"), image, settings. */}}
{{- define "gpugauge.daemonset" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
{{- $canary := eq .pool "canary" -}}
{{- $name := include "gpugauge.fullname" $root -}}
{{- $name = ternary (printf "%s-canary" $name) $name $canary -}}
{{- $privileged := eq $v.security.preset "privileged" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ $name }}
  namespace: {{ include "gpugauge.namespace" $root }}
  labels:
    {{- include "gpugauge.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .pool }}
spec:
  revisionHistoryLimit: {{ $v.revisionHistoryLimit }}
  minReadySeconds: {{ $v.minReadySeconds }}
  selector:
    matchLabels:
      {{- include "gpugauge.selectorLabels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .pool }}
  updateStrategy:
    type: {{ $v.updateStrategy.type }}
    {{- if eq $v.updateStrategy.type "RollingUpdate" }}
    rollingUpdate:
      maxUnavailable: {{ $v.updateStrategy.maxUnavailable }}
      maxSurge: 0
    {{- end }}
  template:
    metadata:
      labels:
        {{- include "gpugauge.selectorLabels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .pool }}
        {{- with $v.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $v.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: agent
        checksum/settings: {{ include "gpugauge.settings" (dict "root" $root "settings" .settings) | sha256sum }}
        {{- if $v.api.token.value }}
        {{- /* Enough to restart on a change, too little to find the token by. */}}
        checksum/token: {{ $v.api.token.value | sha256sum | trunc 8 | quote }}
        {{- end }}
        {{- with include "gpugauge.podAnnotations" $root | trim }}
        {{- . | nindent 8 }}
        {{- end }}
    spec:
      hostPID: true
      serviceAccountName: {{ include "gpugauge.serviceAccountName" $root }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
      {{- with $v.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if eq $v.driver.access "runtimeClass" }}
      runtimeClassName: {{ $v.driver.runtimeClassName }}
      {{- end }}
      {{- with $v.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "gpugauge.affinity" (dict "root" $root "canary" $canary) }}
      affinity:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with $v.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: agent
          image: {{ include "gpugauge.image" (dict "image" .image "appVersion" $root.Chart.AppVersion) }}
          imagePullPolicy: {{ .image.pullPolicy }}
          args: [run]
          {{- /* Not /dev/termination-log: with driver.access=hostPath /dev is the host's. */}}
          terminationMessagePath: /tmp/termination-log
          terminationMessagePolicy: FallbackToLogsOnError
          env:
            - name: GPUGAUGE_SETTINGS
              value: /etc/gpugauge/settings.toml
            - name: GPUGAUGE_NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            {{- if has $v.driver.access (list "env" "runtimeClass") }}
            - name: NVIDIA_VISIBLE_DEVICES
              value: all
            - name: NVIDIA_DRIVER_CAPABILITIES
              value: utility
            {{- end }}
            {{- /* NVIDIA's runtime refuses to start a container that asks for it without SYS_ADMIN. */}}
            {{- if and (ne $v.driver.access "none") (or $privileged $v.security.sysAdmin) }}
            - name: NVIDIA_MIG_MONITOR_DEVICES
              value: all
            {{- end }}
            {{- with $v.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: {{ $v.port }}
              protocol: TCP
          {{- /* Loading, proving and attaching take seconds; a slow node may take a minute. */}}
          startupProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 3
          resources:
            {{- toYaml $v.resources | nindent 12 }}
          securityContext:
            {{- include "gpugauge.securityContext" $root | nindent 12 }}
          volumeMounts:
            - name: settings
              mountPath: /etc/gpugauge/settings.toml
              subPath: settings.toml
              readOnly: true
            {{- if $v.api.exposed }}
            - name: token
              mountPath: /etc/gpugauge/token
              readOnly: true
            {{- end }}
            - name: lock
              mountPath: /run/gpugauge.lock
            - name: tmp
              mountPath: /tmp
            - name: pod-resources
              mountPath: {{ $v.kubeletPath }}/pod-resources
              readOnly: true
            - name: cgroup
              mountPath: /sys/fs/cgroup
              readOnly: true
            {{- if eq $v.driver.access "hostPath" }}
            - name: dev
              mountPath: /dev
              readOnly: true
            {{- end }}
            {{- with $v.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: settings
          configMap:
            name: {{ $name }}
        {{- if $v.api.exposed }}
        - name: token
          secret:
            secretName: {{ include "gpugauge.secretName" $root }}
            defaultMode: 0400
        {{- end }}
        - name: lock
          hostPath: {path: /run/gpugauge.lock, type: FileOrCreate}
        - name: tmp
          emptyDir: {sizeLimit: 64Mi}
        - name: pod-resources
          hostPath: {path: {{ $v.kubeletPath }}/pod-resources, type: Directory}
        - name: cgroup
          hostPath: {path: /sys/fs/cgroup, type: Directory}
        {{- if eq $v.driver.access "hostPath" }}
        - name: dev
          hostPath: {path: /dev, type: Directory}
        {{- end }}
        {{- with $v.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
