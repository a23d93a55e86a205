{{/*
Prints the name of the installation. All names of objects begin with it. It begins with a letter, as names of Services
must (RFC 1035).
*/}}
{{- define "tollway.name" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "the name of the release, %q, names Services: it must begin with a letter, and may have small letters, digits and - only; take %q for example" .Release.Name (printf "tollway-%s" (.Release.Name | replace "." "-"))) -}}
{{- end -}}
{{- regexReplaceAll "-+$" (trunc 40 .Release.Name) "" -}}
{{- end -}}

{{- define "tollway.operator" -}}
{{- include "tollway.name" . }}-operator
{{- end -}}

{{- define "tollway.selector" -}}
app.kubernetes.io/name: tollway-operator
app.kubernetes.io/instance: {{ include "tollway.name" . }}
{{- end -}}

{{/* Prints the labels of objects that the chart makes. Objects that the operator makes have managed-by: tollway. */}}
{{- define "tollway.labels" -}}
{{ include "tollway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tollway
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/*
Prints labels, those of the chart first. The argument is a map: root, and labels of the object, which take precedence over
those of all objects.
*/}}
{{- define "tollway.allLabels" -}}
{{- $fixed := include "tollway.labels" .root -}}
{{ $fixed }}
{{- $known := fromYaml $fixed }}
{{- range $name, $value := merge (dict) (.labels | default dict) (.root.Values.commonLabels | default dict) }}
{{- if not (hasKey $known $name) }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Prints the metadata of pods other than the operators. The argument is a map: root, and labels of the pod, which take
precedence.
*/}}
{{- define "tollway.podMetadata" -}}
labels: {{- merge (dict) .labels (.root.Values.commonLabels | default dict) | toYaml | nindent 2 }}
{{- with .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Prints the labels and the annotations of an object. The argument is a map: root, labels and annotations of the object. */}}
{{- define "tollway.metadataWith" -}}
labels:
  {{- include "tollway.allLabels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Prints the labels and the annotations of an object that has none of its own. */}}
{{- define "tollway.metadata" -}}
{{- include "tollway.metadataWith" (dict "root" .) -}}
{{- end -}}

{{/*
Prints an image with its registry and digest. The argument is a map: root, image, digest, and field, the value's name.
The part before the first slash is a registry if it has a dot or a colon, or is localhost, as for the kubelet.
*/}}
{{- define "tollway.image" -}}
{{- $image := .image -}}
{{- $registry := (.root.Values.image | default dict).registry -}}
{{- if and $registry (not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" $image)) -}}
{{- $image = printf "%s/%s" $registry $image -}}
{{- end -}}
{{- if .digest -}}
{{- if contains "@" $image -}}
{{- fail (printf "%sDigest: %s has a digest already; remove one of the two" .field .image) -}}
{{- end -}}
{{- $image = printf "%s@%s" $image .digest -}}
{{- end -}}
{{ $image }}
{{- end -}}

{{- define "tollway.operatorImage" -}}
{{- with .Values.operator -}}
{{- include "tollway.image" (dict "root" $ "image" .image "digest" .imageDigest "field" "operator.image") -}}
{{- end -}}
{{- end -}}

{{/*
Prints the imagePullSecrets of a pod. The argument is a map: root, and names of Secrets, which are added to those of
all pods.
*/}}
{{- define "tollway.imagePullSecrets" -}}
{{- with concat (.names | default list) ((.root.Values.image | default dict).pullSecrets | default list) | uniq }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Prints on which nodes pods with the image of the operator may run: the operators, hooks and tests. */}}
{{- define "tollway.placement" -}}
{{- with .Values.operator.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.operator.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Prints a list with the labels of the services whose pods share the Redis of the values. */}}
{{- define "tollway.redisUsers" -}}
{{- $users := list -}}
{{- with .Values.rateLimit -}}
{{- if and .enabled (eq .backend.type "redis") }}{{ $users = append $users "ratelimit" }}{{ end -}}
{{- end -}}
{{- with .Values.broker -}}
{{- if and .enabled (eq .streamLog.type "redis") (not .streamLog.urlSecret.name) }}{{ $users = append $users "broker" }}{{ end -}}
{{- end -}}
{{ toJson $users }}
{{- end -}}

{{/*
Prints a list of the Redis servers of the chart: one for counters, and one for streams, so that streams use no memory
of counters.
*/}}
{{- define "tollway.bundledRedis" -}}
{{- $servers := list -}}
{{- $users := include "tollway.redisUsers" . | fromJsonArray -}}
{{- with .Values.redis.bundled -}}
{{- if and .enabled (has "ratelimit" $users) }}
{{- $servers = append $servers (dict "suffix" "redis" "user" "ratelimit" "maxMemory" .maxMemory "resources" .resources) }}
{{- end -}}
{{- if and .enabled (has "broker" $users) }}
{{- $servers = append $servers (merge (dict "suffix" "redis-streams" "user" "broker") .streams) }}
{{- end -}}
{{- end -}}
{{ toJson $servers }}
{{- end -}}

{{/* Prints the name and key of the Secret with the address of the Redis. */}}
{{- define "tollway.redisSecret" -}}
{{- with .Values.redis -}}
{{- $ways := list (ne .existingSecret.name "") (ne .url "") .bundled.enabled -}}
{{- $chosen := 0 -}}
{{- range $ways }}{{ if . }}{{ $chosen = add1 $chosen }}{{ end }}{{ end -}}
{{- if ne (int $chosen) 1 -}}
{{- fail (printf "redis: set exactly one of redis.existingSecret.name, redis.url and redis.bundled.enabled; %d are set. Without a Redis set rateLimit.backend.type=memory and rateLimit.replicas=1, and of the broker, where it is enabled, broker.streamLog.type=memory and broker.replicas=1" $chosen) -}}
{{- end -}}
{{- if .existingSecret.name -}}
{{ dict "name" .existingSecret.name "key" .existingSecret.key | toJson }}
{{- else -}}
{{ dict "name" (printf "%s-redis" (include "tollway.name" $)) "key" "url" | toJson }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if values contradict each other, with the message of the operator. Without this check, the operator would reject
the values only after the installation.
*/}}
{{- define "tollway.check" -}}
{{- with .Values.lease -}}
{{- if ge (int .renewDeadlineSeconds) (int .durationSeconds) -}}
{{- fail (printf "lease.renewDeadlineSeconds: %d must be below lease.durationSeconds, %d" (int .renewDeadlineSeconds) (int .durationSeconds)) -}}
{{- end -}}
{{- if ge (int .retrySeconds) (int .renewDeadlineSeconds) -}}
{{- fail (printf "lease.retrySeconds: %d must be below lease.renewDeadlineSeconds, %d" (int .retrySeconds) (int .renewDeadlineSeconds)) -}}
{{- end -}}
{{- end -}}
{{- range $field, $store := dict "rateLimit" "backend" "broker" "streamLog" "payments" "" -}}
{{- $plan := get $.Values $field -}}
{{- if $plan.enabled -}}
{{- $scaling := $plan.autoscaling | default dict -}}
{{- if $scaling.enabled -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "%s.autoscaling.minReplicas: %d must be at most maxReplicas, %d" $field (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- if and (eq (int $scaling.targetCpuPercent) 0) (empty $scaling.metrics) -}}
{{- fail (printf "%s.autoscaling.metrics: at least one metric is required while targetCpuPercent is 0" $field) -}}
{{- end -}}
{{- end -}}
{{- if and $store (eq (get $plan $store).type "memory") (or $scaling.enabled (gt (int $plan.replicas) 1)) -}}
{{- $many := ternary "autoscaling" (printf "%d replicas" (int $plan.replicas)) (default false $scaling.enabled) -}}
{{- fail (printf "%s.%s.type: \"memory\" is not allowed with %s: the pods share nothing; use redis, or set %s.replicas to 1 without autoscaling" $field $store $many $field) -}}
{{- end -}}
{{- if eq (toString $plan.pods.maxUnavailable) "0" -}}
{{- fail (printf "%s.pods.maxUnavailable: \"0\" is not allowed, because it prevents the drain of nodes; expected at least 1" $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.broker -}}
{{- if and .enabled (.admin | default dict).enabled (not .admin.tokenSecret.name) -}}
{{- fail "broker.admin.tokenSecret.name: is required: the name of the Secret with the tokens" -}}
{{- end -}}
{{- end -}}
{{- with .Values.payments -}}
{{- if and .enabled (not .database.urlSecret.name) -}}
{{- fail "payments.database.urlSecret.name: is required: the name of the Secret with the address of PostgreSQL" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Prints the operator's configuration: the values, under the names of the fields of the configuration. */}}
{{- define "tollway.config" -}}
{{- $rateLimit := deepCopy .Values.rateLimit -}}
{{- $broker := deepCopy .Values.broker -}}
{{- $payments := deepCopy .Values.payments -}}
{{- range $field, $service := dict "rateLimit" $rateLimit "broker" $broker "payments" $payments -}}
{{- $pods := $service.pods -}}
{{- $image := include "tollway.image" (dict "root" $ "image" $pods.image "digest" $pods.imageDigest "field" (printf "%s.pods.image" $field)) -}}
{{- $_ := set $pods "image" $image -}}
{{- $_ := unset $pods "imageDigest" -}}
{{- with concat ($pods.imagePullSecrets | default list) (($.Values.image | default dict).pullSecrets | default list) | uniq }}{{ $_ := set $pods "imagePullSecrets" . }}{{ end -}}
{{- end -}}
{{- range include "tollway.redisUsers" . | fromJsonArray -}}
{{- $section := ternary $rateLimit.backend $broker.streamLog (eq . "ratelimit") -}}
{{- $_ := set $section "urlSecret" (include "tollway.redisSecret" $ | fromJson) -}}
{{- end -}}
{{- range include "tollway.bundledRedis" . | fromJsonArray -}}
{{- if eq .user "broker" }}{{ $_ := set $broker.streamLog.urlSecret "name" (printf "%s-redis-streams" (include "tollway.name" $)) }}{{ end -}}
{{- end -}}
name: {{ include "tollway.name" . }}
operators: {{ .Values.operator.replicas }}
operatorPort: {{ .Values.operator.port }}
feedPort: {{ .Values.operator.feedPort }}
{{ pick .Values "logLevel" "watchNamespaces" "domainGrants" "lease" "podSecurityContext" "containerSecurityContext" | toYaml }}
{{- with (.Values.feedCertificates | default dict).issuer }}
{{- if ne . "operator" }}
feedCertificates: {issuer: {{ . }}}
{{- end }}
{{- end }}
{{- with .Values.commonLabels }}
commonLabels: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.commonAnnotations }}
commonAnnotations: {{- toYaml . | nindent 2 }}
{{- end }}
rateLimit: {{- $rateLimit | toYaml | nindent 2 }}
broker: {{- $broker | toYaml | nindent 2 }}
payments: {{- $payments | toYaml | nindent 2 }}
{{- end -}}

{{/*
Prints the revision: a hash of the configuration, of the operators' own values and of the version. Each operator
reports its revision, and the hook waits for operators that report this one.
*/}}
{{- define "tollway.revision" -}}
{{- list (include "tollway.config" .) (toYaml .Values.operator) (toYaml .Values.image) .Chart.Version | join "\n" | sha256sum | trunc 16 -}}
{{- end -}}

{{/* Prints a list of the Secrets of this namespace that the values name and that pods read at start. */}}
{{- define "tollway.namedSecrets" -}}
{{- $names := list -}}
{{- $config := include "tollway.config" . | fromYaml -}}
{{- with $config.rateLimit }}{{ if .enabled }}{{ $names = append $names (.backend.urlSecret | default dict).name }}{{ end }}{{ end -}}
{{- with $config.broker }}{{ if .enabled }}{{ $names = append $names (.streamLog.urlSecret | default dict).name }}{{ end }}{{ end -}}
{{- with $config.payments }}{{ if .enabled }}{{ $names = append $names .database.urlSecret.name }}{{ $names = append $names .mail.urlSecret.name }}{{ end }}{{ end -}}
{{ $names | compact | uniq | sortAlpha | toJson }}
{{- end -}}

{{/*
Prints secretNamespaces as a list: '*' for all watched namespaces, otherwise the names. Fails for an upgrade from a
version whose operator could read all Secrets, if secretNamespaces is not set and a resource would lose its Secret.
*/}}
{{- define "tollway.secretNamespaces" -}}
{{- $given := .Values.secretNamespaces | default list | uniq -}}
{{- $watched := .Values.watchNamespaces | uniq -}}
{{- if has "*" $given -}}
{{- $given = $watched | default (list "*") -}}
{{- else if $watched -}}
{{- range $given -}}
{{- if not (has . $watched) -}}
{{- fail (printf "secretNamespaces: %q is not in watchNamespaces; the operator reads Secrets only where it reads resources" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if kindIs "invalid" .Values.secretNamespaces }}{{ include "tollway.requireDecision" . }}{{ end -}}
{{ toJson $given }}
{{- end -}}

{{/*
Fails if the installed release may read all Secrets, and a resource uses a Secret that this release may not read.
*/}}
{{- define "tollway.requireDecision" -}}
{{- $role := printf "%s-%s-resources" .Release.Namespace (include "tollway.name" .) -}}
{{- $using := list -}}
{{- range $place := .Values.watchNamespaces | default (list "") -}}
{{- $installed := lookup "rbac.authorization.k8s.io/v1" (ternary "ClusterRole" "Role" (eq $place "")) $place $role -}}
{{- range $installed.rules -}}
{{- if has "secrets" .resources -}}
{{- range (lookup "tollway.dev/v1alpha1" "AnimationStreamRoute" $place "").items -}}
{{- if .spec.tokenSecretRef }}{{ $using = append $using .metadata.namespace }}{{ end -}}
{{- end -}}
{{- if $.Values.payments.enabled -}}
{{- range (lookup "tollway.dev/v1alpha1" "Merchant" $place "").items }}{{ $using = append $using .metadata.namespace }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $using | uniq | sortAlpha -}}
{{- fail (printf "secretNamespaces: decide which Secrets the operator may read. The installed version may read all of them, this one only those of the namespaces that are named here. Resources of these namespaces use Secrets: %s. To keep their rights: --set 'secretNamespaces={%s}'. To let each namespace grant them by a RoleBinding: --set-json 'secretNamespaces=[]' (docs/tasks/install.md#secrets)" (join ", " .) (join "," .)) -}}
{{- end -}}
{{- end -}}

{{/*
Prints the image of the hook. It is the image of the running operators, if their rollout is complete and their
`tollway status` has the options that the hook uses: if the new image does not exist, a hook with the new image could
not report that.
*/}}
{{- define "tollway.hookImage" -}}
{{- $image := include "tollway.operatorImage" . -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "tollway.operator" .) | default dict -}}
{{- $wanted := dig "spec" "replicas" 0 $live | int -}}
{{- $isKnown := eq (dig "metadata" "annotations" "tollway.dev/hook" "" $live) "2" -}}
{{- $isObserved := eq (dig "status" "observedGeneration" 0 $live | int) (dig "metadata" "generation" 0 $live | int) -}}
{{- $isUpdated := eq (dig "status" "updatedReplicas" 0 $live | int) $wanted -}}
{{- $isReady := eq (dig "status" "readyReplicas" 0 $live | int) $wanted -}}
{{- if and $isKnown $isObserved $isUpdated $isReady (gt $wanted 0) -}}
{{- range dig "spec" "template" "spec" "containers" list $live -}}
{{- if eq .name "operator" }}{{ $image = .image }}{{ end -}}
{{- end -}}
{{- end -}}
{{ $image }}
{{- end -}}

{{/*
Prints the annotations of a hook that runs after an uninstall. The argument is the weight, by which helm orders hooks.
*/}}
{{- define "tollway.removalHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
