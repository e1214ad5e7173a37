{{/* What the label says. */}}
{{- define "injector.name" -}}
{{- .Values.inject | default .Release.Name -}}
{{- end -}}

{{/* Unless it is told otherwise, the library names its objects as the label does, and finds the pods by the label. */}}
{{- define "injector.prepare" -}}
{{- if not .Values.baton.fullnameOverride -}}
{{- $_ := set .Values.baton "fullnameOverride" (include "injector.name" .) -}}
{{- end -}}
{{- if not .Values.baton.podSelector -}}
{{- $_ := set .Values.baton "podSelector" (dict "baton.dev/inject" (include "injector.name" .)) -}}
{{- end -}}
{{- end -}}

{{/* A value as an expression. Lists and maps of CEL have one type of members here, so every member is of the type `dyn`. */}}
{{- define "injector.cel" -}}
{{- $members := list -}}
{{- if kindIs "map" . -}}
{{- range $key, $value := . -}}
{{- $members = append $members (printf "%s: dyn(%s)" (toJson $key) (include "injector.cel" $value)) -}}
{{- end -}}
{{- printf "{%s}" (join ", " $members) -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}
{{- $members = append $members (printf "dyn(%s)" (include "injector.cel" .)) -}}
{{- end -}}
{{- printf "[%s]" (join ", " $members) -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* One step of a patch, as an expression. */}}
{{- define "injector.add" -}}
{{- printf `JSONPatch{op: "add", path: %s, value: %s}` (toJson .path) (include "injector.cel" .value) -}}
{{- end -}}

{{/*
What makes a pod what the library chart would have made of it: the sidecar first among `initContainers`, the volumes last,
the annotations. A list or map that the pod does not have is made before something is added to it.
*/}}
{{- define "injector.patch" -}}
{{- $steps := list -}}
{{- $sidecar := include "baton.sidecar" . | fromYamlArray | first -}}
{{- $steps = append $steps `(has(object.spec.initContainers) ? [] : [JSONPatch{op: "add", path: "/spec/initContainers", value: []}])` -}}
{{- $steps = append $steps (printf "[%s]" (include "injector.add" (dict "path" "/spec/initContainers/0" "value" $sidecar))) -}}
{{- $steps = append $steps `(has(object.spec.volumes) ? [] : [JSONPatch{op: "add", path: "/spec/volumes", value: []}])` -}}
{{- range include "baton.volumes" . | fromYamlArray -}}
{{- $steps = append $steps (printf "[%s]" (include "injector.add" (dict "path" "/spec/volumes/-" "value" .))) -}}
{{- end -}}
{{- $steps = append $steps `(has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}])` -}}
{{- range $key, $value := include "baton.annotations" . | fromYaml -}}
{{- $path := printf "/metadata/annotations/%s" ($key | replace "~" "~0" | replace "/" "~1") -}}
{{- $steps = append $steps (printf "[%s]" (include "injector.add" (dict "path" $path "value" $value))) -}}
{{- end -}}
{{- join " +\n" $steps -}}
{{- end -}}
