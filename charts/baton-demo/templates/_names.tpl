{{- define "demo.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "demo.fullname" -}}
{{- with .Values.fullnameOverride -}}
{{- . -}}
{{- else -}}
{{- $name := include "demo.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The workers' labels, by which Baton's PodMonitor and NetworkPolicy find them, too. */}}
{{- define "demo.workerLabels" -}}
app.kubernetes.io/name: {{ include "demo.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "demo.ledgerLabels" -}}
app.kubernetes.io/name: {{ include "demo.name" . | trunc 56 }}-ledger
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "demo.labels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "demo.image" -}}
{{- with .Values.image.digest -}}
{{- printf "%s@%s" $.Values.image.repository . -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository .Values.image.tag -}}
{{- end -}}
{{- end -}}

{{/* Image, user and what else a Python container of this chart has in common. */}}
{{- define "demo.pythonFields" -}}
image: {{ include "demo.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  runAsUser: 10001
  runAsGroup: 10001
  runAsNonRoot: true
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  - name: scripts
    mountPath: /scripts
    readOnly: true
{{- end -}}

{{/* The port of the app's side, as the configuration has it. */}}
{{- define "demo.apiPort" -}}
{{- regexFind "[0-9]+$" (((.Values.baton.config.api).listen) | default "127.0.0.1:4040") -}}
{{- end -}}
