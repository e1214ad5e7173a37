{{/*
The configuration file: `baton.config` as it is, with what `baton.redis` adds, and what can be known to be wrong before
the sidecar starts.
*/}}

{{/* The configuration file. */}}
{{- define "baton.config" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $store := $config.store -}}
{{- range include "baton.logins" . | fromJsonArray -}}
{{- if .given -}}
{{- $login := include "baton.login" . | fromYaml -}}
{{- if eq .section "locks.store.redis" -}}
{{- $_ := set $config.locks "store" (dict "redis" (merge .config $login)) -}}
{{- else if eq .section "jobsStore.redis" -}}
{{- $_ := set $config "jobsStore" (dict "redis" (merge .config $login)) -}}
{{- else if hasKey $store "redis" -}}
{{- $_ := set $store "redis" (merge .config $login) -}}
{{- else -}}
{{- $members := list -}}
{{- range .config.members -}}
{{- $members = append $members (merge . (omit $login "tls" "url")) -}}
{{- end -}}
{{- $_ := set $store "quorum" (merge (dict "members" $members) .config (pick $login "tls")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/*
Where a Secret can log in, as JSON: the values that name it, the section of the configuration, whether that is given and
what it says, the variable for a URL, and what the names of volumes and directories begin with.
*/}}
{{- define "baton.logins" -}}
{{- $values := .Values.baton -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $store := $config.store -}}
{{- $locks := ($config.locks | default dict).store | default dict -}}
{{- $jobs := $config.jobsStore | default dict -}}
{{- list
  (dict "of" "redis" "secret" $values.redis "section" "store.redis"
    "given" (or (hasKey $store "redis") (hasKey $store "quorum")) "quorum" (hasKey $store "quorum") "config" (($store.redis | default $store.quorum) | default dict)
    "variable" "BATON_REDIS_URL" "name" "baton")
  (dict "of" "locksRedis" "secret" $values.locksRedis "section" "locks.store.redis"
    "given" (hasKey $locks "redis") "config" ($locks.redis | default dict)
    "variable" "BATON_LOCKS_REDIS_URL" "name" "baton-locks")
  (dict "of" "jobsRedis" "secret" $values.jobsRedis "section" "jobsStore.redis"
    "given" (hasKey $jobs "redis") "config" ($jobs.redis | default dict)
    "variable" "BATON_JOBS_REDIS_URL" "name" "baton-jobs")
  | toJson -}}
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

{{/* What one of `baton.logins` adds to its section; for `store.quorum` to every member. */}}
{{- define "baton.login" -}}
{{- $name := .name -}}
{{- $variable := .variable -}}
{{- $redis := .secret -}}
{{- with $redis.existingSecret -}}
{{- with $redis.urlKey }}
url: ${ {{- $variable -}} }
{{- end }}
{{- with $redis.usernameKey }}
usernameFile: /etc/{{ $name }}-secrets/username
{{- end }}
{{- with $redis.passwordKey }}
passwordFile: /etc/{{ $name }}-secrets/password
{{- end }}
{{- end -}}
{{- with $redis.tls.existingSecret }}
tls:
  {{- with $redis.tls.caKey }}
  caFile: /etc/{{ $name }}-tls/ca.crt
  {{- end }}
  {{- if $redis.tls.certKey }}
  certFile: /etc/{{ $name }}-tls/tls.crt
  keyFile: /etc/{{ $name }}-tls/tls.key
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Stops with a message at values that contradict each other. */}}
{{- define "baton.checks" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $values := .Values.baton -}}
{{- $store := $config.store -}}
{{- if not $store -}}
{{- fail "baton.config.store is empty: name one store, such as `store: { redis: { url: redis://redis:6379/0 } }`" -}}
{{- end -}}
{{- if gt (len $store) 1 -}}
{{- fail (printf "baton.config.store names %s: leave one. Null takes back a default of your chart; with --reuse-values or --reset-then-reuse-values it does not where a value was set before: give all values anew" (keys $store | sortAlpha | join " and ")) -}}
{{- end -}}
{{- if not $config.roles -}}
{{- fail "baton.config.roles is empty: name a role, such as `roles: [{ name: scheduler }]`" -}}
{{- end -}}
{{- if and $values.redis.urlKey (hasKey $store "quorum") -}}
{{- fail "baton.redis.urlKey is one URL, but every member of baton.config.store.quorum has its own" -}}
{{- end -}}
{{- range include "baton.logins" . | fromJsonArray -}}
{{- include "baton.checkLogin" . -}}
{{- end -}}
{{- include "baton.checkVersions" . -}}
{{- end -}}

{{/* One of `baton.logins`. What is both in `baton.config` and added to it would be one of the two by chance. */}}
{{- define "baton.checkLogin" -}}
{{- $redis := .secret -}}
{{- $of := .of -}}
{{- if and .given (not .quorum) (not .config.url) (not (and $redis.existingSecret $redis.urlKey)) -}}
{{- fail (printf "baton.config.%s.url is missing: write it, or name the Secret that has it (baton.%s.existingSecret, baton.%s.urlKey)" .section $of $of) -}}
{{- end -}}
{{- if and (or $redis.existingSecret $redis.tls.existingSecret) (not .given) -}}
{{- fail (printf "baton.%s names a Secret, but baton.config%s" $of (ternary ".store is neither redis nor quorum" (printf " has no %s" .section) (eq $of "redis"))) -}}
{{- end -}}
{{- if and $redis.existingSecret (not (or $redis.urlKey $redis.usernameKey $redis.passwordKey)) -}}
{{- fail (printf "baton.%s.existingSecret is set, but none of its keys: baton.%s.urlKey, usernameKey, passwordKey" $of $of) -}}
{{- end -}}
{{- if and (not $redis.existingSecret) (or $redis.urlKey $redis.usernameKey $redis.passwordKey) -}}
{{- fail (printf "baton.%s.urlKey, usernameKey and passwordKey are keys of a Secret: name it in baton.%s.existingSecret" $of $of) -}}
{{- end -}}
{{- if ne (empty $redis.tls.certKey) (empty $redis.tls.keyKey) -}}
{{- fail (printf "baton.%s.tls.certKey and keyKey belong together: a certificate and its key" $of) -}}
{{- end -}}
{{- $places := list .config -}}
{{- if .quorum -}}
{{- $places = append (.config.members | default list) (pick .config "tls") -}}
{{- end -}}
{{- $login := include "baton.login" . | fromYaml -}}
{{- $section := ternary "store" (trimSuffix ".redis" .section) (eq $of "redis") -}}
{{- range $place := $places -}}
{{- if include "baton.holdsPassword" $place -}}
{{- fail (printf "baton.config.%s has a password in plain text, which would be in a ConfigMap: put it into a Secret that baton.%s.existingSecret and passwordKey name, or write ${NAME} in its place and take the variable from a Secret in baton.env" $section $of) -}}
{{- end -}}
{{- range $key, $_ := $login -}}
{{- $plain := trimSuffix "File" $key -}}
{{- if or (hasKey $place $key) (hasKey $place $plain) -}}
{{- fail (printf "baton.config.%s says `%s`, and baton.%s takes it from a Secret: leave one out" $section (ternary $key $plain (hasKey $place $key)) $of) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "yes" when a Redis of the configuration has a password that no variable stands for. */}}
{{- define "baton.holdsPassword" -}}
{{- $url := .url | default "" -}}
{{- $user := regexFind "//[^/?#]*@" $url | trimSuffix "@" -}}
{{- $inUrl := regexFind ":.*" (trimPrefix "//" $user) | trimPrefix ":" -}}
{{- $ofSentinels := regexFind "[?&]sentinelPassword=[^&]*" $url | regexFind "[^=]*$" -}}
{{- range list $inUrl $ofSentinels (.password | default "") -}}
{{- if and . (not (contains "${" .)) -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "baton.checkVersions" -}}
{{- $values := .Values.baton -}}
{{- if and $values.nativeSidecar (not (semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version)) -}}
{{- fail (printf "native sidecars need Kubernetes 1.29, this is %s: set baton.nativeSidecar to false, and see `baton.container`. `helm template` asks no cluster: tell it your version with --kube-version" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and $values.rbac.admissionPolicy (not (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}
{{- fail (printf "baton.rbac.admissionPolicy needs Kubernetes 1.30, this is %s: set it to false. `helm template` asks no cluster: tell it your version with --kube-version" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and (include "baton.needsApi" .) (not $values.serviceAccount.create) (not $values.serviceAccount.name) -}}
{{- fail "what baton.config asks for needs rights: set baton.serviceAccount.name to the pod's service account (or baton.serviceAccount.create)" -}}
{{- end -}}
{{- if and $values.leaderService.enabled (not (($values.config.kubernetes).podLabels)) -}}
{{- fail "baton.leaderService selects the leader by its label: set baton.config.kubernetes.podLabels" -}}
{{- end -}}
{{- if $values.leaderService.enabled -}}
{{- $_ := include "baton.leaderRole" . -}}
{{- end -}}
{{- if and (or $values.podMonitor.enabled $values.networkPolicy.enabled) (hasPrefix "127." (include "baton.telemetryListen" .)) -}}
{{- fail "baton.config.telemetry.listen is loopback: Prometheus could not reach it" -}}
{{- end -}}
{{- end -}}

{{- define "baton.telemetryListen" -}}
{{- ((.Values.baton.config.telemetry).listen) | default "[::]:4041" -}}
{{- end -}}

{{/* The port that metrics and probes are on. */}}
{{- define "baton.telemetryPort" -}}
{{- $listen := include "baton.telemetryListen" . -}}
{{- $port := regexFind "[0-9]+$" $listen -}}
{{- if or (not $port) (contains "${" $listen) -}}
{{- fail "baton.config.telemetry.listen is written out here, as ADDRESS:PORT: the probes need the port" -}}
{{- end -}}
{{- if or (hasPrefix "127." $listen) (hasPrefix "[::1]" $listen) -}}
{{- fail "baton.config.telemetry.listen is loopback, but the kubelet's probes come from outside the pod: use [::]" -}}
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

{{/* "yes" when it needs to know which version its pod is of: a Deployment's pods have one label that tells, those of a
StatefulSet another, and a variable without its label is empty. */}}
{{- define "baton.prefersNewest" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- if not $config.version -}}
{{- range $config.roles -}}
{{- if .prefer -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "yes" when the sidecar talks to the API server, and so needs a token and rights. */}}
{{- define "baton.needsApi" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- if or (hasKey $config.store "kubernetes") (include "baton.knowsPod" .) -}}
yes
{{- end -}}
{{- end -}}
