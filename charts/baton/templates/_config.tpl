{{/*
The configuration file: `baton.config` as it is, with what `baton.redis` adds, and what can be known to be wrong before
the sidecar starts.
*/}}

{{/* The configuration file. */}}
{{- define "baton.config" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $store := $config.store -}}
{{- $login := include "baton.login" . | fromYaml -}}
{{- if hasKey $store "redis" -}}
{{- $_ := set $store "redis" (merge $store.redis $login) -}}
{{- else if hasKey $store "quorum" -}}
{{- $members := list -}}
{{- range ($store.quorum).members -}}
{{- $members = append $members (merge . (omit $login "tls" "url")) -}}
{{- end -}}
{{- $_ := set $store "quorum" (merge (dict "members" $members) $store.quorum (pick $login "tls")) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* `baton.config` without what is null: so a chart's default can be taken back, such as `store: { redis: null }`. */}}
{{- define "baton.given" -}}
{{- include "baton.checkCaller" . -}}
{{- include "baton.withoutNulls" (merge (dict) (deepCopy .Values.baton.config) (dict "store" dict)) -}}
{{- end -}}

{{- define "baton.withoutNulls" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $kept $key (include "baton.withoutNulls" $value | fromJson) -}}
{{- else if kindIs "slice" $value -}}
{{- $items := list -}}
{{- range $value -}}
{{- $items = append $items (ternary (include "baton.withoutNulls" (ternary . dict (kindIs "map" .)) | fromJson) . (kindIs "map" .)) -}}
{{- end -}}
{{- $_ := set $kept $key $items -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $kept $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $kept -}}
{{- end -}}

{{/* What `baton.redis` adds to `store.redis`, or to every member of `store.quorum`. */}}
{{- define "baton.login" -}}
{{- $redis := .Values.baton.redis -}}
{{- with $redis.existingSecret -}}
{{- with $redis.urlKey }}
url: ${BATON_REDIS_URL}
{{- end }}
{{- with $redis.usernameKey }}
usernameFile: /etc/baton-secrets/username
{{- end }}
{{- with $redis.passwordKey }}
passwordFile: /etc/baton-secrets/password
{{- end }}
{{- end -}}
{{- with $redis.tls.existingSecret }}
tls:
  {{- with $redis.tls.caKey }}
  caFile: /etc/baton-tls/ca.crt
  {{- end }}
  {{- if $redis.tls.certKey }}
  certFile: /etc/baton-tls/tls.crt
  keyFile: /etc/baton-tls/tls.key
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Stops with a message at values that contradict each other. */}}
{{- define "baton.checks" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $values := .Values.baton -}}
{{- $store := $config.store -}}
{{- $redis := $values.redis -}}
{{- if not $store -}}
{{- fail "baton.config.store is empty: name one store, such as `store: { redis: { url: redis://redis:6379/0 } }`" -}}
{{- end -}}
{{- if gt (len $store) 1 -}}
{{- fail (printf "baton.config.store names %s: leave one, and set a default of your chart to null" (keys $store | sortAlpha | join " and ")) -}}
{{- end -}}
{{- if not $config.roles -}}
{{- fail "baton.config.roles is empty: name a role, such as `roles: [{ name: scheduler }]`" -}}
{{- end -}}
{{- if and (hasKey $store "redis") (not $store.redis.url) (not (and $redis.existingSecret $redis.urlKey)) -}}
{{- fail "baton.config.store.redis.url is missing: write it, or name the Secret that has it (baton.redis.existingSecret, baton.redis.urlKey)" -}}
{{- end -}}
{{- if and (or $redis.existingSecret $redis.tls.existingSecret) (not (or (hasKey $store "redis") (hasKey $store "quorum"))) -}}
{{- fail "baton.redis names a Secret, but baton.config.store is neither redis nor quorum" -}}
{{- end -}}
{{- if and $redis.existingSecret (not (or $redis.urlKey $redis.usernameKey $redis.passwordKey)) -}}
{{- fail "baton.redis.existingSecret is set, but none of its keys: baton.redis.urlKey, usernameKey, passwordKey" -}}
{{- end -}}
{{- if and (not $redis.existingSecret) (or $redis.urlKey $redis.usernameKey $redis.passwordKey) -}}
{{- fail "baton.redis.urlKey, usernameKey and passwordKey are keys of a Secret: name it in baton.redis.existingSecret" -}}
{{- end -}}
{{- if and $redis.urlKey (hasKey $store "quorum") -}}
{{- fail "baton.redis.urlKey is one URL, but every member of baton.config.store.quorum has its own" -}}
{{- end -}}
{{- if ne (empty $redis.tls.certKey) (empty $redis.tls.keyKey) -}}
{{- fail "baton.redis.tls.certKey and keyKey belong together: a certificate and its key" -}}
{{- end -}}
{{- include "baton.checkOverrides" . -}}
{{- include "baton.checkVersions" . -}}
{{- end -}}

{{/* What is both in `baton.config` and added by `baton.redis` would be one of the two by chance. */}}
{{- define "baton.checkOverrides" -}}
{{- $login := include "baton.login" . | fromYaml -}}
{{- $store := (include "baton.given" . | fromJson).store -}}
{{- $places := list -}}
{{- if hasKey $store "redis" -}}
{{- $places = list $store.redis -}}
{{- else if hasKey $store "quorum" -}}
{{- $places = append ($store.quorum.members | default list) (pick $store.quorum "tls") -}}
{{- end -}}
{{- range $place := $places -}}
{{- range $key, $_ := $login -}}
{{- $plain := trimSuffix "File" $key -}}
{{- if or (hasKey $place $key) (hasKey $place $plain) -}}
{{- fail (printf "baton.config.store says `%s`, and baton.redis takes it from a Secret: leave one out" (ternary $key $plain (hasKey $place $key))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "baton.checkVersions" -}}
{{- $values := .Values.baton -}}
{{- if and $values.nativeSidecar (not (semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version)) -}}
{{- fail (printf "native sidecars need Kubernetes 1.29, this is %s: set baton.nativeSidecar to false, and see `baton.container`" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and (include "baton.needsApi" .) (not $values.serviceAccount.create) (not $values.serviceAccount.name) -}}
{{- fail "what baton.config asks for needs rights: set baton.serviceAccount.name to the pod's service account (or baton.serviceAccount.create)" -}}
{{- end -}}
{{- if and $values.leaderService.enabled (not (($values.config.kubernetes).podLabels)) -}}
{{- fail "baton.leaderService selects the leader by its label: set baton.config.kubernetes.podLabels" -}}
{{- end -}}
{{- if and (or $values.podMonitor.enabled $values.networkPolicy.enabled) (hasPrefix "127." (include "baton.telemetryListen" .)) -}}
{{- fail "baton.config.telemetry.listen is loopback: Prometheus could not reach it" -}}
{{- end -}}
{{- end -}}

{{- define "baton.telemetryListen" -}}
{{- ((.Values.baton.config.telemetry).listen) | default "0.0.0.0:4041" -}}
{{- end -}}

{{/* The port that metrics and probes are on. */}}
{{- define "baton.telemetryPort" -}}
{{- $listen := include "baton.telemetryListen" . -}}
{{- $port := regexFind "[0-9]+$" $listen -}}
{{- if or (not $port) (contains "${" $listen) -}}
{{- fail "baton.config.telemetry.listen is written out here, as ADDRESS:PORT: the probes need the port" -}}
{{- end -}}
{{- if or (hasPrefix "127." $listen) (hasPrefix "[::1]" $listen) -}}
{{- fail "baton.config.telemetry.listen is loopback, but the kubelet's probes come from outside the pod: use 0.0.0.0" -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/* "yes" when the sidecar tells the API server who leads. */}}
{{- define "baton.extras" -}}
{{- $extras := (include "baton.given" . | fromJson).kubernetes | default dict -}}
{{- if or $extras.podLabels $extras.events $extras.leaseMirror -}}
yes
{{- end -}}
{{- end -}}

{{/* "yes" when it does, or asks it who has ended, and so needs to know its pod. */}}
{{- define "baton.knowsPod" -}}
{{- if or (include "baton.extras" .) ((include "baton.given" . | fromJson).kubernetes | default dict).fastFailover -}}
yes
{{- end -}}
{{- end -}}

{{/* "yes" when the sidecar talks to the API server, and so needs a token and rights. */}}
{{- define "baton.needsApi" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- if or (hasKey $config.store "kubernetes") (include "baton.knowsPod" .) -}}
yes
{{- end -}}
{{- end -}}
