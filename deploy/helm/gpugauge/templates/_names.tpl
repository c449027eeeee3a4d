{{/* Names and labels. */}}
{{- define "gpugauge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 52 characters: what is appended fits into 63, as names of labels and Services must. */}}
{{- define "gpugauge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "gpugauge.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gpugauge.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpugauge.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "gpugauge.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpugauge.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of all pods of the release: `kubectl gpugauge` finds agents by the first one. */}}
{{- define "gpugauge.selectorLabels" -}}
app.kubernetes.io/name: gpugauge
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpugauge.labels" -}}
{{ include "gpugauge.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpugauge.secretName" -}}
{{- default (printf "%s-token" (include "gpugauge.fullname" .)) .Values.api.token.secretName -}}
{{- end -}}

{{- define "gpugauge.switchName" -}}
{{- printf "%s-probes" (include "gpugauge.fullname" .) -}}
{{- end -}}

{{/* Image reference. Takes: a table with repository, tag, digest; the chart's default tag. */}}
{{- define "gpugauge.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .appVersion .image.tag) -}}
{{- end -}}
{{- end -}}
