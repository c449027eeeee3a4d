{{/*
The agent's settings as TOML. Takes: root, settings.
Scalars and lists are written as JSON, whose texts, numbers and lists are TOML too; toToml would
write whole numbers as 1.0, which the agent refuses.
*/}}
{{- define "gpugauge.settings" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $settings := deepCopy .settings -}}
{{- $listen := dict "port" $values.port -}}
{{- if $values.api.exposed -}}
{{- $_ := set $listen "bearer_token_file" (printf "/etc/gpugauge/token/%s" $values.api.token.key) -}}
{{- end -}}
{{- $own := dict
  "listen" $listen
  "kubernetes" (dict "kubelet_path" $values.kubeletPath)
  "off_switch" (dict
    "node_annotation" $values.offSwitch.nodeAnnotation
    "config_map" (ternary (printf "%s/%s" (include "gpugauge.namespace" $root) (include "gpugauge.switchName" $root)) "" $values.offSwitch.configMap))
-}}
{{- if $values.podEvents.enabled -}}
{{- $_ := set $own "pod_events" (dict "enabled" true "severity" $values.podEvents.severity) -}}
{{- end -}}
{{- if $values.loadScore.enabled -}}
{{- $_ := set $own "load_score" (dict "enabled" true) -}}
{{- end -}}
{{- $all := mergeOverwrite $settings $own -}}
{{- range $name, $value := $all -}}
{{- if not (kindIs "map" $value) }}
{{ $name }} = {{ toJson $value }}
{{- end -}}
{{- end -}}
{{- range $section, $table := $all -}}
{{- if kindIs "map" $table }}
[{{ $section }}]
{{- range $name, $value := $table -}}
{{- if not (kindIs "map" $value) }}
{{ $name }} = {{ toJson $value }}
{{- end -}}
{{- end -}}
{{- range $name, $value := $table -}}
{{- if kindIs "map" $value }}
[{{ $section }}.{{ $name }}]
{{- range $key, $amount := $value }}
{{ toJson $key }} = {{ toJson $amount }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The canary pool's settings: the common ones, and its own over them. */}}
{{- define "gpugauge.canarySettings" -}}
{{- mergeOverwrite (deepCopy .Values.settings) (deepCopy .Values.canary.settings) | toJson -}}
{{- end -}}
