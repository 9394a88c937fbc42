{{/*
The objects of this chart are read from the files of the kustomize base, which files/ links to, and changed where a value
says so. A template here takes a list: the root context first.
*/}}

{{/* The documents of a file, as a YAML array: (list $ PATH). */}}
{{- define "ghapp.documents" -}}
{{- $documents := list }}
{{- range regexSplit "(?m)^---$" ((index . 0).Files.Get (index . 1) | required (printf "no file %s" (index . 1))) -1 }}
{{- with fromYaml . }}
{{- $documents = append $documents . }}
{{- end }}
{{- end }}
{{- toYaml $documents }}
{{- end }}

{{/* An object in a namespace: (list $ OBJECT NAMESPACE). */}}
{{- define "ghapp.object" -}}
{{- $object := index . 1 }}
{{- $_ := set $object.metadata "namespace" (index . 2) }}
---
{{ toYaml $object }}
{{ end }}

{{/* An object of the base, with the labels that the base adds to each: (list $ OBJECT). */}}
{{- define "ghapp.labelled" -}}
{{- $object := index . 1 }}
{{- $labels := dict "app.kubernetes.io/name" "ghapp" "app.kubernetes.io/part-of" "ghapp" }}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) }}
{{- with (dig "spec" "template" "metadata" dict $object) }}
{{- $_ := set . "labels" (merge (deepCopy $labels) .labels) }}
{{- end }}
{{- include "ghapp.object" (list (index . 0) $object (index . 0).Release.Namespace) }}
{{- end }}

{{/* A role's Deployment with its values: (list $ DEPLOYMENT VALUES). */}}
{{- define "ghapp.deployment" -}}
{{- $root := index . 0 }}
{{- $deployment := index . 1 }}
{{- $values := index . 2 }}
{{- $pod := $deployment.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $image := $root.Values.image }}
{{- $_ := set $container "image" (printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion)) }}
{{- with $image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
{{- with $values.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- with $root.Values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with (get $values $name) }}{{ $_ := set $pod $name . }}{{ end }}
{{- end }}
{{- if $root.Values.openshift }}
{{- $_ := set $pod "securityContext" (omit $pod.securityContext "runAsUser" "runAsGroup" "fsGroup") }}
{{- end }}
{{- $checksum := dict "checksum/config" (include "ghapp.config" $root | sha256sum) }}
{{- $_ := set $deployment.spec.template.metadata "annotations" (merge $checksum $values.podAnnotations) }}
{{- if or (dig "autoscaling" "enabled" false $values) (and $root.Values.keda.enabled (eq $container.name "worker")) }}
{{- $_ := unset $deployment.spec "replicas" }}
{{- else }}
{{- $_ := set $deployment.spec "replicas" $values.replicas }}
{{- end }}
{{- include "ghapp.labelled" (list $root $deployment) }}
{{- end }}

{{/* What the roles read, as their ConfigMaps have it. */}}
{{- define "ghapp.config" -}}
{{- $config := .Values.config | default (.Files.Get "files/base/ghapp.toml") }}
{{- toYaml (dict "ghapp-config" (dict "ghapp.toml" $config) "ghapp-env" .Values.env) }}
{{- end }}
