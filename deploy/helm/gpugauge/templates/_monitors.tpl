{{/*
An endpoint of a monitor. Takes the table of values of the monitor.

Where labels are not honoured, Prometheus keeps the agent's own pod in namespace, pod and container
and renames those of the sample to exported_*. A sample that tells of a workload has the label
`scope`: its three labels are put back, an empty one too (a process of the host has no pod).
*/}}
{{- define "gpugauge.endpoint" -}}
port: metrics
path: /metrics
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
honorLabels: {{ .honorLabels }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or (not .honorLabels) .metricRelabelings }}
metricRelabelings:
  {{- if not .honorLabels }}
  {{- range $label := list "namespace" "pod" "container" }}
  - sourceLabels: [scope, exported_{{ $label }}]
    regex: .+;(.*)
    targetLabel: {{ $label }}
    replacement: $1
    action: replace
  {{- end }}
  - regex: exported_(namespace|pod|container)
    action: labeldrop
  {{- end }}
  {{- with .metricRelabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}
