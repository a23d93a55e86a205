{{/* Prints a value as an expression of CEL, where values of several types in one list or map must be dynamic. */}}
{{- define "tollway.cel" -}}
{{- $items := list -}}
{{- $isText := true -}}
{{- if kindIs "map" . -}}
{{- range $name := keys . | sortAlpha -}}
{{- $isText = and $isText (kindIs "string" (get $ $name)) -}}
{{- $items = append $items (printf "%s: %s" (toJson $name) (include "tollway.cel" (get $ $name))) -}}
{{- end -}}
dyn({{ if $isText }}{{ toJson . }}{{ else }}{{ printf "{%s}" (join ", " $items) }}{{ end }})
{{- else if kindIs "slice" . -}}
{{- range . -}}
{{- $isText = and $isText (kindIs "string" .) -}}
{{- $items = append $items (include "tollway.cel" .) -}}
{{- end -}}
dyn({{ if $isText }}{{ toJson . }}{{ else }}{{ printf "[%s]" (join ", " $items) }}{{ end }})
{{- else -}}
dyn({{ toJson . }})
{{- end -}}
{{- end -}}

{{/* Prints a value as the API server stores it: without fields that are null or empty lists. */}}
{{- define "tollway.stored" -}}
{{- if kindIs "map" . -}}
{{- $stored := dict -}}
{{- range $name, $value := . -}}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "slice" $value) (empty $value))) -}}
{{- $_ := set $stored $name $value -}}
{{- end -}}
{{- end -}}
{ {{- range $index, $name := keys $stored | sortAlpha }}{{ if $index }},{{ end }}{{ toJson $name }}:{{ include "tollway.stored" (get $stored $name) }}{{ end -}} }
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{/* Prints what a container runs, in the order in which the policy compares it: image, command, arguments, the commands of its probes and hooks. */}}
{{- define "tollway.programs" -}}
{{- $programs := list (list .image) (.command | default list) (.args | default list) -}}
{{- range list .livenessProbe .readinessProbe .startupProbe (.lifecycle | default dict).postStart (.lifecycle | default dict).preStop -}}
{{- $programs = append $programs (dig "exec" "command" list (. | default dict)) -}}
{{- end -}}
{{ toJson $programs }}
{{- end -}}

{{/* Prints variables of the values: the name, the value, and the Secret or ConfigMap of each. */}}
{{- define "tollway.variables" -}}
{{- $variables := list -}}
{{- range . -}}
{{- $value := .value | default "" -}}
{{- if not (kindIs "string" $value) }}{{ $value = toJson $value }}{{ end -}}
{{- $from := .valueFrom | default dict -}}
{{- $variables = append $variables (list (toString .name) $value (dig "secretKeyRef" "name" "" $from) (dig "configMapKeyRef" "name" "" $from)) -}}
{{- end -}}
{{ toJson $variables }}
{{- end -}}

{{/* Prints mounts: the volume, the path, the two forms of the path in the volume, and the propagation of each. */}}
{{- define "tollway.mounts" -}}
{{- $mounts := list -}}
{{- range . }}{{ $mounts = append $mounts (list .name .mountPath (.subPath | default "") (.subPathExpr | default "") (.mountPropagation | default "")) }}{{ end -}}
{{ toJson $mounts }}
{{- end -}}

{{/* Prints the Secret of each volume that the operator makes, by the services. */}}
{{- define "tollway.mountedSecrets" -}}
{{- $name := include "tollway.name" . -}}
{{- $feed := printf "%s-feed-client" $name -}}
{{- $config := include "tollway.config" . | fromYaml -}}
{{- $redis := dict -}}
{{- range list "rateLimit" "broker" }}{{ $_ := set $redis . (dig . (ternary "backend" "streamLog" (eq . "rateLimit")) "urlSecret" "name" "" $config) }}{{ end -}}
{{- dict
  "ratelimit" (dict "feed" $feed "redis" $redis.rateLimit)
  "broker" (dict "feed" $feed "redis" $redis.broker "tls" (dig "tlsSecret" "name" "" $config.broker) "admin" (dig "admin" "tokenSecret" "name" "" $config.broker))
  "payments" (dict "feed" $feed "payments" (printf "%s-payments" $name) "database" $config.payments.database.urlSecret.name "mail" $config.payments.mail.urlSecret.name)
  | toJson -}}
{{- end -}}

{{/*
Prints what the pods of each enabled service may contain, by the name of the Deployment: what the operator makes
(files/permissions.yaml), and what the values add.
*/}}
{{- define "tollway.admittedPods" -}}
{{- $admitted := dict -}}
{{- $name := include "tollway.name" . -}}
{{- $config := include "tollway.config" . | fromYaml -}}
{{- $secrets := include "tollway.mountedSecrets" . | fromJson -}}
{{- range $workload, $own := (.Files.Get "files/permissions.yaml" | fromYaml).pods -}}
{{- $service := get $config (ternary "rateLimit" $workload (eq $workload "ratelimit")) -}}
{{- if $service.enabled -}}
{{- $pods := $service.pods -}}
{{- $mounts := include "tollway.mounts" $pods.extraVolumeMounts | fromJsonArray -}}
{{- range $volume, $folder := $own.mounts }}{{ $mounts = append $mounts (list $volume $folder "" "" "") }}{{ end -}}
{{- $containers := dict -}}
{{- $_ := set $containers $workload (dict
  "programs" (include "tollway.programs" $pods | fromJsonArray)
  "securityContext" (include "tollway.stored" $config.containerSecurityContext | fromJson)
  "fields" list
  "env" (concat $own.env ($service.env | default dict | keys | sortAlpha))
  "extraEnv" (include "tollway.variables" $pods.extraEnv | fromJsonArray)
  "mounts" $mounts) -}}
{{- range concat ($pods.initContainers | default list) ($pods.extraContainers | default list) -}}
{{- $_ := set $containers .name (dict
  "programs" (include "tollway.programs" . | fromJsonArray)
  "securityContext" (include "tollway.stored" (ternary .securityContext $config.containerSecurityContext (hasKey . "securityContext")) | fromJson)
  "fields" (without (keys . | sortAlpha) "envFrom")
  "env" list
  "extraEnv" (include "tollway.variables" .env | fromJsonArray)
  "mounts" (include "tollway.mounts" .volumeMounts | fromJsonArray)) -}}
{{- end -}}
{{- $volumes := list (list "tmp" "" "" "") -}}
{{- range $volume, $secret := get $secrets $workload }}{{ if $secret }}{{ $volumes = append $volumes (list $volume $secret "" "") }}{{ end }}{{ end -}}
{{- range $pods.extraVolumes -}}
{{- $volumes = append $volumes (list .name (dig "secret" "secretName" "" .) (dig "configMap" "name" "" .) (dig "persistentVolumeClaim" "claimName" "" .)) -}}
{{- end -}}
{{- $_ := set $admitted (printf "%s-%s" $name $workload) (dict
  "labels" (dict "app.kubernetes.io/name" $workload "app.kubernetes.io/instance" $name)
  "maxReplicas" (max (int $service.replicas) (ternary (int $service.autoscaling.maxReplicas) 0 $service.autoscaling.enabled))
  "securityContext" (include "tollway.stored" $config.podSecurityContext | fromJson)
  "containers" $containers
  "volumes" $volumes
  "imagePullSecrets" ($pods.imagePullSecrets | default list)
  "priorityClassName" ($pods.priorityClassName | default "")) -}}
{{- end -}}
{{- end -}}
{{ toJson $admitted }}
{{- end -}}

{{/*
Prints, by the name of each object that belongs to an enabled service, the component of the service and the ports of a
Service.
*/}}
{{- define "tollway.admittedServices" -}}
{{- $name := include "tollway.name" . -}}
{{- $components := dict -}}
{{- $ports := dict -}}
{{- with .Values.rateLimit -}}
{{- if .enabled -}}
{{- $_ := set $components (printf "%s-ratelimit" $name) "ratelimit" -}}
{{- $_ := set $components (printf "%s-ratelimit-http" $name) "ratelimit" -}}
{{- $_ := set $ports (printf "%s-ratelimit" $name) (list (printf "grpc:%d" (int .grpcPort))) -}}
{{- $_ := set $ports (printf "%s-ratelimit-http" $name) (list (printf "http:%d" (int .httpPort))) -}}
{{- end -}}
{{- end -}}
{{- with .Values.broker -}}
{{- if .enabled -}}
{{- $_ := set $components (printf "%s-broker" $name) "broker" -}}
{{- $_ := set $components (printf "%s-broker-admin" $name) "broker" -}}
{{- $_ := set $ports (printf "%s-broker" $name) (list (printf "grpc:%d" (int .grpcPort))) -}}
{{- $_ := set $ports (printf "%s-broker-admin" $name) (ternary (list (printf "admin:%d" (int .admin.port))) list .admin.enabled) -}}
{{- end -}}
{{- end -}}
{{- with .Values.payments -}}
{{- if .enabled -}}
{{- $_ := set $components (printf "%s-payments" $name) "payments" -}}
{{- $_ := set $components (printf "%s-payments-http" $name) "payments" -}}
{{- $_ := set $ports (printf "%s-payments-http" $name) (list (printf "http:%d" (int .port)) (printf "provision:%d" (int .provisionPort))) -}}
{{- end -}}
{{- end -}}
{{ dict "components" $components "ports" $ports | toJson }}
{{- end -}}

{{/* Prints the labels and annotations of the values for objects of services, each as name=value. */}}
{{- define "tollway.admittedMetadata" -}}
{{- $labels := list -}}
{{- $annotations := list -}}
{{- $all := list (dict "labels" .Values.commonLabels "annotations" .Values.commonAnnotations) -}}
{{- range list .Values.rateLimit .Values.broker .Values.payments -}}
{{- $all = concat (append $all .pods) (values (.objects | default dict)) -}}
{{- end -}}
{{- range $all -}}
{{- range $name, $value := .labels }}{{ $labels = append $labels (printf "%s=%s" $name $value) }}{{ end -}}
{{- range $name, $value := .annotations }}{{ $annotations = append $annotations (printf "%s=%s" $name $value) }}{{ end -}}
{{- end -}}
{{ dict "labels" ($labels | uniq | sortAlpha) "annotations" ($annotations | uniq | sortAlpha) | toJson }}
{{- end -}}
