{{/*
A service mesh whose proxy is an ordinary container of the pod: it starts after the sidecar and ends before it. So the
kubelet and Prometheus must reach the sidecar past it, and the sidecar Redis.
*/}}

{{/* Further annotations of the pod: ports that the proxy leaves alone. */}}
{{- define "baton.meshAnnotations" -}}
{{- $mesh := .Values.baton.mesh -}}
{{- if $mesh.kind -}}
{{- $store := include "baton.storePorts" . | fromJson -}}
{{- if and $store.elsewhere (not $mesh.outboundPorts) -}}
{{- fail (printf "baton.config does not write out the ports of %s: list them in baton.mesh.outboundPorts" (join " and " $store.elsewhere)) -}}
{{- end -}}
{{- $inbound := list (include "baton.telemetryPort" .) -}}
{{- range $mesh.inboundPorts -}}
{{- $inbound = append $inbound (int . | toString) -}}
{{- end -}}
{{- $outbound := $store.ports -}}
{{- range $mesh.outboundPorts -}}
{{- $outbound = append $outbound (int . | toString) -}}
{{- end -}}
{{- $istio := eq $mesh.kind "istio" -}}
{{- if and $istio .Values.baton.nativeSidecar }}
{{- /* Else the kubelet's probes of the sidecar go to the proxy, which waits for them to succeed. */}}
sidecar.istio.io/rewriteAppHTTPProbers: "false"
{{- end }}
{{ ternary "traffic.sidecar.istio.io/excludeInboundPorts" "config.linkerd.io/skip-inbound-ports" $istio }}: {{ uniq $inbound | join "," | quote }}
{{- with uniq $outbound }}
{{ ternary "traffic.sidecar.istio.io/excludeOutboundPorts" "config.linkerd.io/skip-outbound-ports" $istio }}: {{ join "," . | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The ports of every Redis, as JSON: those that the configuration writes out, and of what it does not. */}}
{{- define "baton.storePorts" -}}
{{- $ports := list -}}
{{- $elsewhere := list -}}
{{- range $login := include "baton.logins" . | fromJsonArray -}}
{{- $places := list -}}
{{- $section := $login.section -}}
{{- if $login.quorum -}}
{{- $places = $login.config.members | default list -}}
{{- $section = "store.quorum" -}}
{{- else if $login.given -}}
{{- $places = list $login.config -}}
{{- end -}}
{{- range $places -}}
{{- $url := .url | default "" -}}
{{- $found := include "baton.urlPorts" $url | fromJsonArray -}}
{{- $ports = concat $ports $found -}}
{{- if has "" $found -}}
{{- $elsewhere = append $elsewhere $section -}}
{{- end -}}
{{- if contains "-sentinel:" $url -}}
{{- $elsewhere = append $elsewhere (printf "the servers behind the Sentinels of %s" $section) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "ports" (without $ports "" | uniq) "elsewhere" (uniq $elsewhere) | toJson -}}
{{- end -}}

{{/* The ports in the URL of a Redis, as JSON; an empty text for one that cannot be told. */}}
{{- define "baton.urlPorts" -}}
{{- $ports := list -}}
{{- $authority := regexFind "^[^/?#]*" (regexReplaceAll "^[a-z-]+://" . "") -}}
{{- $host := regexReplaceAll "^.*@" $authority "" -}}
{{- range prepend (regexFindAll "[?&]node=[^&]*" . -1) $host -}}
{{- $port := regexFind ":[0-9]+$" . | trimPrefix ":" -}}
{{- if and (not $port) $host (not (contains "${" .)) -}}
{{- $port = ternary "26379" "6379" (contains "-sentinel:" $) -}}
{{- end -}}
{{- $ports = append $ports $port -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}
