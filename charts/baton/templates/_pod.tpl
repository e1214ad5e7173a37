{{/*
What stands in the pod: the sidecar, its volumes, an annotation, and how long the pod's end may take.
*/}}

{{/* The sidecar as an init container that goes on running (native sidecar): an entry of `initContainers`, the first. */}}
{{- define "baton.sidecar" -}}
{{- include "baton.checks" . -}}
{{- if not .Values.baton.nativeSidecar -}}
{{- fail "baton.nativeSidecar is false: put `baton.container` into `containers`, and no `baton.sidecar` into `initContainers`" -}}
{{- end -}}
- name: baton
  restartPolicy: Always
  {{- include "baton.containerFields" . | nindent 2 }}
{{- end -}}

{{/* The sidecar as an ordinary container, for Kubernetes before 1.29: an entry of `containers`. */}}
{{- define "baton.container" -}}
{{- include "baton.checks" . -}}
{{- if .Values.baton.nativeSidecar -}}
{{- fail "baton.nativeSidecar is true: put `baton.sidecar` into `initContainers`, and no `baton.container` into `containers`" -}}
{{- end -}}
- name: baton
  {{- include "baton.containerFields" . | nindent 2 }}
{{- end -}}

{{- define "baton.image" -}}
{{- $image := .Values.baton.image -}}
{{- $tag := $image.tag | default .Subcharts.baton.Chart.AppVersion -}}
{{- with $image.digest -}}
{{- printf "%s@%s" $image.repository . -}}
{{- else -}}
{{- printf "%s:%s" $image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "baton.containerFields" -}}
{{- $values := .Values.baton -}}
image: {{ include "baton.image" . | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args: [run, --config, /etc/baton/config.yaml]
env:
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- if include "baton.knowsPod" . }}
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  - name: POD_UID
    valueFrom:
      fieldRef:
        fieldPath: metadata.uid
  {{- end }}
  {{- if include "baton.prefersNewest" . }}
  - name: POD_TEMPLATE_HASH
    valueFrom:
      fieldRef:
        fieldPath: metadata.labels['pod-template-hash']
  - name: POD_REVISION_HASH
    valueFrom:
      fieldRef:
        fieldPath: metadata.labels['controller-revision-hash']
  - name: POD_VERSION
    value: $(POD_TEMPLATE_HASH)$(POD_REVISION_HASH)
  {{- end }}
  {{- range include "baton.logins" . | fromJsonArray }}
  {{- if and .secret.existingSecret .secret.urlKey }}
  - name: {{ .variable }}
    valueFrom:
      secretKeyRef:
        name: {{ .secret.existingSecret }}
        key: {{ .secret.urlKey }}
  {{- end }}
  {{- end }}
  {{- with $values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: baton-telemetry
    containerPort: {{ include "baton.telemetryPort" . }}
    protocol: TCP
{{- /* Startup is: the configuration is good and it listens. Neither this nor liveness asks for Redis or for leadership: a
restart would help neither, and a follower is as ready as a leader. */}}
startupProbe:
  httpGet: { path: /livez, port: baton-telemetry }
  periodSeconds: 1
  failureThreshold: 30
livenessProbe:
  httpGet: { path: /livez, port: baton-telemetry }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- if $values.waitForStore }}
readinessProbe:
  httpGet: { path: /readyz, port: baton-telemetry }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- if not $values.platformUser }}
  runAsUser: {{ $values.runAsUser | int64 }}
  runAsGroup: {{ $values.runAsGroup | int64 }}
  {{- end }}
  runAsNonRoot: true
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  - name: baton-config
    mountPath: /etc/baton
    readOnly: true
  {{- range include "baton.logins" . | fromJsonArray }}
  {{- if include "baton.hasSecretFiles" . }}
  - name: {{ .name }}-secrets
    mountPath: /etc/{{ .name }}-secrets
    readOnly: true
  {{- end }}
  {{- if .secret.tls.existingSecret }}
  - name: {{ .name }}-tls
    mountPath: /etc/{{ .name }}-tls
    readOnly: true
  {{- end }}
  {{- end }}
  {{- if include "baton.needsApi" . }}
  - name: baton-token
    mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    readOnly: true
  {{- end }}
  {{- with $values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* "yes" when the Secret of one of `baton.logins` has more than the URL, which is in the environment. */}}
{{- define "baton.hasSecretFiles" -}}
{{- if and .secret.existingSecret (or .secret.usernameKey .secret.passwordKey) -}}
yes
{{- end -}}
{{- end -}}

{{/* Entries of the pod's `volumes`. */}}
{{- define "baton.volumes" -}}
{{- include "baton.checks" . -}}
{{- $values := .Values.baton -}}
- name: baton-config
  configMap:
    name: {{ include "baton.fullname" . }}
{{- range include "baton.logins" . | fromJsonArray }}
{{- $redis := .secret }}
{{- if include "baton.hasSecretFiles" . }}
- name: {{ .name }}-secrets
  secret:
    secretName: {{ $redis.existingSecret }}
    items:
      {{- with $redis.usernameKey }}
      - { key: {{ . | quote }}, path: username }
      {{- end }}
      {{- with $redis.passwordKey }}
      - { key: {{ . | quote }}, path: password }
      {{- end }}
{{- end }}
{{- if $redis.tls.existingSecret }}
- name: {{ .name }}-tls
  secret:
    secretName: {{ $redis.tls.existingSecret }}
    items:
      {{- with $redis.tls.caKey }}
      - { key: {{ . | quote }}, path: ca.crt }
      {{- end }}
      {{- with $redis.tls.certKey }}
      - { key: {{ . | quote }}, path: tls.crt }
      - { key: {{ $redis.tls.keyKey | quote }}, path: tls.key }
      {{- end }}
{{- end }}
{{- end }}
{{- if include "baton.needsApi" . }}
{{- /* A token of the sidecar's own: the app's containers get none, so the pod may say automountServiceAccountToken: false. */}}
- name: baton-token
  projected:
    sources:
      - serviceAccountToken: { path: token, expirationSeconds: 3607 }
      - configMap:
          name: kube-root-ca.crt
          items:
            - { key: ca.crt, path: ca.crt }
      - downwardAPI:
          items:
            - path: namespace
              fieldRef: { fieldPath: metadata.namespace }
{{- end }}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Annotations of the pod. The first changes, and so the pods are replaced, when a part of the configuration changes that
needs a restart. Roles are taken over by the running sidecars.
*/}}
{{- define "baton.annotations" -}}
{{- include "baton.checks" . -}}
{{- $config := include "baton.config" . | fromYaml -}}
{{- if .Values.baton.reloadRoles -}}
{{- $config = omit $config "roles" "defaultRole" -}}
{{- end -}}
checksum/baton-config: {{ $config | toJson | sha256sum }}
{{- include "baton.meshAnnotations" . }}
{{- end -}}

{{/* Seconds for `terminationGracePeriodSeconds`: the app's own, then the sidecar's. */}}
{{- define "baton.terminationGracePeriodSeconds" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $longest := 0.0 -}}
{{- range $config.roles -}}
{{- $promise := divf (include "baton.milliseconds" (.leaseDuration | default "15s")) 3 -}}
{{- with .renewPeriod -}}
{{- $promise = include "baton.milliseconds" . | float64 -}}
{{- end -}}
{{- $promise = minf $promise 5000 -}}
{{- with .answerValidity -}}
{{- $promise = include "baton.milliseconds" . | float64 -}}
{{- end -}}
{{- $longest = maxf $longest $promise -}}
{{- end -}}
{{- /* A role is given back to its store, what a job came to is written to its own. */}}
{{- $timeout := "5s" -}}
{{- range $config.store -}}
{{- $timeout = .commandTimeout | default $timeout -}}
{{- end -}}
{{- $timeout = include "baton.milliseconds" $timeout | float64 -}}
{{- range list ($config.locks | default dict).store $config.jobsStore -}}
{{- with (. | default dict).redis -}}
{{- $timeout = maxf $timeout (include "baton.milliseconds" (.commandTimeout | default "1s")) -}}
{{- end -}}
{{- end -}}
{{- /* What Kubernetes shows of the leader is taken back within a second. */}}
{{- $extras := ternary 1000 0 (not (empty (include "baton.extras" .))) -}}
{{- $drain := addf $longest $timeout 1000 $extras -}}
{{- add .Values.baton.appDrainSeconds (divf $drain 1000 | ceil) -}}
{{- end -}}

{{/* Milliseconds of a duration such as 1m30s. One that comes from the environment counts as 5 s. */}}
{{- define "baton.milliseconds" -}}
{{- $total := 0.0 -}}
{{- if contains "${" . -}}
{{- $total = 5000.0 -}}
{{- else -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- range regexFindAll "[0-9]+(\\.[0-9]+)?(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $total = addf $total (mulf (trimSuffix $unit .) (get $units $unit)) -}}
{{- end -}}
{{- end -}}
{{- $total -}}
{{- end -}}
