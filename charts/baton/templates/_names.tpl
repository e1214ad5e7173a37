{{/*
Names and labels. Every template of this chart is called with the root of the calling chart (`.` at the top of a
template, `$` inside `range` and `with`) and reads its values below `.Values.baton`.
*/}}

{{/* This chart's own values, or a message to who renamed it. */}}
{{- define "baton.checkCaller" -}}
{{- if not (kindIs "map" ((.Values).baton)) -}}
{{- fail "Baton's templates are called with the chart's root ($), and the dependency keeps its name: `baton`, without an alias" -}}
{{- end -}}
{{- end -}}

{{/* What the objects are named: `baton.fullnameOverride`, else release and chart as `helm create` names them, and `-baton`. */}}
{{- define "baton.fullname" -}}
{{- include "baton.checkCaller" . -}}
{{- with .Values.baton.fullnameOverride -}}
{{- . -}}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $base := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- printf "%s-baton" ($base | trunc 57 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* The labels of the pods that have the sidecar: `baton.podSelector`, else those that `helm create` gives. */}}
{{- define "baton.selectorLabels" -}}
{{- with .Values.baton.podSelector -}}
{{- toYaml . -}}
{{- else -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{/* The labels of the objects that this chart makes. */}}
{{- define "baton.labels" -}}
app.kubernetes.io/name: baton
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: leader-election
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Subcharts.baton.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The pod's service account: `baton.serviceAccount.name`, else the one that this chart makes, else the default. */}}
{{- define "baton.serviceAccountName" -}}
{{- $account := .Values.baton.serviceAccount -}}
{{- $account.name | default (ternary (include "baton.fullname" .) "default" $account.create) -}}
{{- end -}}
