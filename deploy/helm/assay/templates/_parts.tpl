{{/* Labels of everything in a release. */}}
{{- define "assay.labels" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Labels by which the pods of one part are found: (list . "server"). */}}
{{- define "assay.selector" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The secret that holds all tokens and passwords. */}}
{{- define "assay.keys" -}}
{{ .Values.keys.existingSecret | default (printf "%s-keys" .Release.Name) }}
{{- end }}

{{/* An image of ours with its registry and tag: (list . .Values.server.image). */}}
{{- define "assay.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := required "registry is needed: build the images of deploy/docker, push them, and say where they are" $root.Values.registry -}}
{{ printf "%s/%s:%s" (trimSuffix "/" $registry) $image.name ($image.tag | default $root.Chart.AppVersion) }}
{{- end }}

{{/* One key as a variable of a container: (list . "NAME" "key"). */}}
{{- define "assay.keyVariable" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef: {name: {{ include "assay.keys" (index . 0) }}, key: {{ index . 2 }}}
{{- end }}

{{/* Where the server finds its database and its queue. */}}
{{- define "assay.stores" -}}
{{- if .Values.postgresql.enabled }}
{{ include "assay.keyVariable" (list . "DATABASE_PASSWORD" "database") }}
- name: ASSAY_SERVER_DATABASE_URL
  value: postgresql://assay:$(DATABASE_PASSWORD)@{{ .Release.Name }}-postgresql:5432/assay
{{- else if .Values.database.urlSecret.name }}
- name: ASSAY_SERVER_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.database.urlSecret.name }}, key: {{ .Values.database.urlSecret.key }}}
{{- else }}
{{- fail "postgresql.enabled is false, and database.urlSecret.name does not say where the database is" }}
{{- end }}
{{- if .Values.redis.enabled }}
{{ include "assay.keyVariable" (list . "REDIS_PASSWORD" "redis") }}
- name: ASSAY_SERVER_REDIS_URL
  value: redis://:$(REDIS_PASSWORD)@{{ .Release.Name }}-redis:6379/0
{{- end }}
{{- end }}

{{/* What every container may do: nothing beyond its own files. */}}
{{- define "assay.contained" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Under which number the pods of a part run: (list 10001). */}}
{{- define "assay.account" -}}
runAsNonRoot: true
runAsUser: {{ index . 0 }}
runAsGroup: {{ index . 0 }}
fsGroup: {{ index . 0 }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Where the pods of a part may run: .Values.server and the like. */}}
{{- define "assay.where" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A volume that outlives the release: (list . "server" .Values.server.persistence). */}}
{{- define "assay.claim" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $wish := index . 2 -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ $root.Release.Name }}-{{ $part }}
  labels: {{- include "assay.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $part }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  accessModes: [{{ $wish.accessMode | default "ReadWriteOnce" }}]
  {{- with $wish.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests: {storage: {{ $wish.size }}}
{{- end }}
