{{/*
Which nodes a pool runs on, as an affinity. Takes: root, canary (true for the canary pool).
Terms of a node affinity are ORed, expressions within a term are ANDed: what must hold anyway is
added to each term.
*/}}
{{- define "gpugauge.affinity" -}}
{{- $v := .root.Values -}}
{{- $always := list -}}
{{- if $v.canary.enabled -}}
{{- $operator := ternary "In" "NotIn" .canary -}}
{{- $always = append $always (dict "key" $v.canary.nodeLabel "operator" $operator "values" (list $v.canary.nodeLabelValue)) -}}
{{- end -}}
{{- if $v.nodes.pauseForDriverUpgrade -}}
{{- /* NotIn also holds where the label is absent: without the Operator, or with an older one. */ -}}
{{- $paused := list "paused-for-driver-upgrade" "paused-for-mig-change" "paused-for-vgpu-change" -}}
{{- $always = append $always (dict "key" $v.nodes.pauseLabel "operator" "NotIn" "values" $paused) -}}
{{- end -}}
{{- $affinity := deepCopy $v.affinity -}}
{{- $terms := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $affinity -}}
{{- $chosen := or $terms $v.nodeSelector -}}
{{- $automatic := and (eq $v.nodes.withGpuOnly "auto") (eq $v.driver.access "runtimeClass") (not $chosen) -}}
{{- if or (eq $v.nodes.withGpuOnly "always") $automatic -}}
{{- $terms = list
  (dict "matchExpressions" (list (dict "key" "nvidia.com/gpu.present" "operator" "In" "values" (list "true"))))
  (dict "matchExpressions" (list (dict "key" "feature.node.kubernetes.io/pci-10de.present" "operator" "In" "values" (list "true"))))
  (dict "matchExpressions" (list (dict "key" "feature.node.kubernetes.io/cpu-model.vendor_id" "operator" "In" "values" (list "NVIDIA"))))
  (dict "matchExpressions" (list (dict "key" "cloud.google.com/gke-accelerator" "operator" "Exists")))
  (dict "matchExpressions" (list (dict "key" "k8s.amazonaws.com/accelerator" "operator" "Exists")))
-}}
{{- end -}}
{{- if $always -}}
{{- if not $terms -}}
{{- $terms = list (dict) -}}
{{- end -}}
{{- $whole := list -}}
{{- range $term := $terms -}}
{{- $expressions := concat (default list $term.matchExpressions) $always -}}
{{- $whole = append $whole (merge (dict "matchExpressions" $expressions) $term) -}}
{{- end -}}
{{- $terms = $whole -}}
{{- end -}}
{{- if $terms -}}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $affinity = mergeOverwrite $affinity (dict "nodeAffinity" $required) -}}
{{- end -}}
{{- if $affinity -}}
{{- toYaml $affinity -}}
{{- end -}}
{{- end -}}
