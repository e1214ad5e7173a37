{{/*
The objects beside the pod. `baton.objects` is all that the values ask for; each also has a name of its own.
*/}}

{{- define "baton.objects" -}}
{{- include "baton.checks" . -}}
{{- $root := . -}}
{{- $names := list "configmap" "serviceaccount" "role" "admissionpolicy" "podmonitor" "rules" "dashboards" "networkpolicy" "leaderservice" -}}
{{- range $names }}
{{- with include (printf "baton.%s" .) $root }}
---
{{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The configuration file. */}}
{{- define "baton.configmap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "baton.fullname" . }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
data:
  config.yaml: |
    {{- include "baton.config" . | nindent 4 }}
{{- end -}}

{{- define "baton.serviceaccount" -}}
{{- if .Values.baton.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "baton.serviceAccountName" . }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
  {{- with .Values.baton.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- /* The sidecar has a token of its own where it needs one. */}}
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/* The least rights, and only where something needs any: in the namespace of the leases, and in that of the pods. */}}
{{- define "baton.role" -}}
{{- if and .Values.baton.rbac.create (include "baton.needsApi" .) -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $store := "" -}}
{{- $own := "" -}}
{{- $namespace := .Release.Namespace -}}
{{- if hasKey $config.store "kubernetes" -}}
{{- $leases := $config.store.kubernetes | default dict -}}
{{- $namespace = $leases.namespace | default .Release.Namespace -}}
{{- $prefix := $leases.namePrefix | default "baton" -}}
{{- $jobs := ternary nil $config.jobs (hasKey $config "jobsStore") -}}
{{- $store = include "baton.leaseRules" (dict "roles" $config.roles "jobs" $jobs "prefix" $prefix "namespace" $namespace "verbs" "get, watch, update") -}}
{{- end -}}
{{- if include "baton.knowsPod" . -}}
{{- $own = include "baton.extrasRules" . -}}
{{- end -}}
{{- if and $store $own (ne $namespace .Release.Namespace) -}}
{{- include "baton.roleWith" (dict "root" . "namespace" $namespace "rules" $store) }}
---
{{ include "baton.roleWith" (dict "root" . "namespace" .Release.Namespace "rules" $own) }}
{{- else -}}
{{- include "baton.roleWith" (dict "root" . "namespace" $namespace "rules" (printf "%s\n%s" $store $own | trim)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Lease objects: RBAC cannot name what is not there yet, so `create` stands alone. */}}
{{- define "baton.leaseRules" -}}
{{- $prefix := .prefix -}}
{{- $names := list -}}
{{- range $role := .roles -}}
{{- $shards := int ($role.shards | default 1) -}}
{{- if gt $shards 1 -}}
{{- range $number := until $shards -}}
{{- $names = append $names (printf "%s-%s.%d" $prefix $role.name $number) -}}
{{- end -}}
{{- else -}}
{{- $names = append $names (printf "%s-%s" $prefix $role.name) -}}
{{- end -}}
{{- end -}}
{{- range $job := .jobs -}}
{{- $names = append $names (printf "%s-job.%s" $prefix $job.name) -}}
{{- end -}}
{{- if .jobs -}}
{{- $names = append $names (printf "%s-job.all.jobs" $prefix) -}}
{{- $names = append $names (printf "%s-jobs.wishes" $prefix) -}}
{{- end -}}
{{- if contains "${" (printf "%s %s" .namespace (join " " $names)) -}}
{{- fail "the Role names Lease objects: write roles, jobs, keyPrefix, namePrefix and namespace out in baton.config, or set baton.rbac.create to false" -}}
{{- end -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ toJson $names }}
  verbs: [{{ .verbs }}]
{{- end -}}

{{/* What `config.kubernetes` switches on. */}}
{{- define "baton.extrasRules" -}}
{{- $config := include "baton.given" . | fromJson -}}
{{- $extras := $config.kubernetes | default dict -}}
{{- if $extras.leaseMirror -}}
{{- $leases := $config.store.kubernetes | default dict -}}
{{- $prefix := coalesce ($config.store.redis).keyPrefix ($config.store.quorum).keyPrefix $leases.namePrefix "baton" -}}
{{- include "baton.leaseRules" (dict "roles" $config.roles "prefix" $prefix "namespace" .Release.Namespace "verbs" "get, update") }}
{{ end -}}
{{- if $extras.podLabels -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{ end -}}
{{- if $extras.fastFailover -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [watch]
{{ end -}}
{{- if $extras.events -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}
{{- end -}}

{{/* A Role and its RoleBinding. */}}
{{- define "baton.roleWith" -}}
{{- $root := .root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "baton.fullname" $root }}
  namespace: {{ .namespace }}
  labels:
    {{- include "baton.labels" $root | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "baton.fullname" $root }}
  namespace: {{ .namespace }}
  labels:
    {{- include "baton.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "baton.fullname" $root }}
subjects:
  - kind: ServiceAccount
    name: {{ include "baton.serviceAccountName" $root }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}

{{/*
RBAC cannot say "labels only": this says it, of the account that may patch pods. Off by default, because both objects
belong to the cluster: who installs into a namespace often may not make them.
*/}}
{{- define "baton.admissionpolicy" -}}
{{- $extras := (include "baton.given" . | fromJson).kubernetes | default dict -}}
{{- if and .Values.baton.rbac.admissionPolicy $extras.podLabels -}}
{{- $name := printf "%s.%s" (include "baton.fullname" .) .Release.Namespace | trimSuffix "." -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: ["*"]
        resources: [pods]
        operations: [UPDATE]
  matchConditions:
    - name: by-baton
      expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "baton.serviceAccountName" . }}'
  variables:
    # Before and after.
    - name: labels
      expression: "[oldObject, object].map(pod, has(pod.metadata.labels) ? pod.metadata.labels : {})"
    - name: annotations
      expression: "[oldObject, object].map(pod, has(pod.metadata.annotations) ? pod.metadata.annotations : {})"
    # From before to after, and back.
    - name: changes
      expression: >-
        [[variables.labels[0], variables.labels[1]], [variables.labels[1], variables.labels[0]],
        [variables.annotations[0], variables.annotations[1]], [variables.annotations[1], variables.annotations[0]]]
  validations:
    - expression: object.spec == oldObject.spec
      message: Baton does not change what a pod is
    - expression: >-
        variables.changes.all(change, change[0].all(key, key.startsWith('baton.dev/role-') ||
        (key in change[1] && change[1][key] == change[0][key])))
      message: Baton changes no labels and annotations but those of roles
    - expression: >-
        object.metadata.?finalizers == oldObject.metadata.?finalizers &&
        object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
      message: Baton does not change whose a pod is
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ .Release.Namespace }}
{{- end -}}
{{- end -}}

{{/* Not a ServiceMonitor, which finds ports by a Service: an init container's was not found by older Prometheus. */}}
{{- define "baton.podmonitor" -}}
{{- $monitor := .Values.baton.podMonitor -}}
{{- if $monitor.enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ include "baton.fullname" . }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "baton.selectorLabels" . | nindent 6 }}
  podMetricsEndpoints:
    - port: baton-telemetry
      path: /metrics
      interval: {{ $monitor.interval }}
      {{- with $monitor.scrapeTimeout }}
      scrapeTimeout: {{ . }}
      {{- end }}
{{- end -}}
{{- end -}}

{{/* The alerts of `files/alerts.yaml`, which is a Prometheus rule file. */}}
{{- define "baton.rules" -}}
{{- $rules := .Values.baton.prometheusRule -}}
{{- if $rules.enabled -}}
{{- $alerts := .Subcharts.baton.Files.Get "files/alerts.yaml" -}}
{{- with $rules.runbookUrl -}}
{{- $alerts = $alerts | replace "runbook_url: docs/runbooks/" (printf "runbook_url: %s/" (trimSuffix "/" .)) -}}
{{- end -}}
{{- if not $alerts -}}
{{- fail "baton.prometheusRule.enabled: this version of the chart has no alerts" -}}
{{- end -}}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ include "baton.fullname" . }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
    {{- with $rules.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- $alerts | fromYaml | toYaml | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The Grafana dashboards of `files/dashboards/`, as its sidecar finds them. */}}
{{- define "baton.dashboards" -}}
{{- $dashboards := .Values.baton.dashboards -}}
{{- if $dashboards.enabled -}}
{{- $files := .Subcharts.baton.Files.Glob "files/dashboards/*.json" -}}
{{- if not $files -}}
{{- fail "baton.dashboards.enabled: this version of the chart has no dashboards" -}}
{{- end -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "baton.fullname" . }}-dashboards
  labels:
    {{- include "baton.labels" . | nindent 4 }}
    grafana_dashboard: "1"
    {{- with $dashboards.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
data:
  {{- $files.AsConfig | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Policies add up, but the first that selects a pod shuts out all that none allows: also what the app needs. */}}
{{- define "baton.networkpolicy" -}}
{{- $policy := .Values.baton.networkPolicy -}}
{{- if $policy.enabled -}}
{{- $shut := or $policy.egress $policy.apiServer -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "baton.fullname" . }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "baton.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress{{ if $shut }}, Egress{{ end }}]
  ingress:
    - ports:
        - port: {{ include "baton.telemetryPort" . }}
          protocol: TCP
      {{- with $policy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- if $shut }}
  egress:
    {{- if $policy.dns }}
    - ports:
        - { port: 53, protocol: UDP }
        - { port: 53, protocol: TCP }
    {{- end }}
    {{- with $policy.apiServer }}
    - to:
        {{- toYaml . | nindent 8 }}
      ports:
        {{- range $policy.apiServerPorts }}
        - { port: {{ int . }}, protocol: TCP }
        {{- end }}
    {{- end }}
    {{- with $policy.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* A Service whose only endpoint is the leader. */}}
{{- define "baton.leaderservice" -}}
{{- $service := .Values.baton.leaderService -}}
{{- if $service.enabled -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $service.name | default (printf "%s-leader" (include "baton.fullname" . | trunc 56 | trimSuffix "-")) }}
  labels:
    {{- include "baton.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "baton.selectorLabels" . | nindent 4 }}
    baton.dev/role-{{ include "baton.leaderRole" . }}: leader
  ports:
    {{- toYaml $service.ports | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* The role that the Service follows, as the pods' label names it: of a shard its number comes after a dot. */}}
{{- define "baton.leaderRole" -}}
{{- $roles := .Values.baton.config.roles -}}
{{- $wanted := .Values.baton.leaderService.role | default (first $roles).name -}}
{{- $name := first (splitList "/" $wanted) -}}
{{- $names := list -}}
{{- $shards := 1 -}}
{{- range $roles -}}
{{- $names = append $names .name -}}
{{- if eq .name $name -}}
{{- $shards = int (.shards | default 1) -}}
{{- end -}}
{{- end -}}
{{- if contains "${" $wanted -}}
{{- fail "baton.leaderService selects by the role's name: write it out in baton.config.roles, or name another role in baton.leaderService.role" -}}
{{- end -}}
{{- if not (has $name $names) -}}
{{- fail (printf "baton.leaderService.role is %s, but baton.config.roles has %s" $wanted (join ", " $names)) -}}
{{- end -}}
{{- if and (gt $shards 1) (eq $name $wanted) -}}
{{- fail (printf "baton.leaderService would select nobody: the role %s has %d shards, each with a leader of its own. Name one of them in baton.leaderService.role, such as %s/0, or leave the Service out" $name $shards $name) -}}
{{- end -}}
{{- if and (ne $name $wanted) (or (eq $shards 1) (ge (last (splitList "/" $wanted) | int) $shards)) -}}
{{- fail (printf "baton.leaderService.role is %s, but the role %s has %s" $wanted $name (ternary "no shards" (printf "shards 0 to %d" (sub $shards 1)) (eq $shards 1))) -}}
{{- end -}}
{{- $wanted | replace "/" "." -}}
{{- end -}}
