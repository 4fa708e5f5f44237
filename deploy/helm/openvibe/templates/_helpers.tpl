{{- define "openvibe.name" -}}
{{- if contains "openvibe" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-openvibe" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "openvibe.selector" -}}
app.kubernetes.io/name: openvibe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "openvibe.labels" -}}
{{ include "openvibe.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* SQLite supports one node. */}}
{{- define "openvibe.replicas" -}}
{{- if .Values.sqlite.enabled }}1{{ else }}{{ .Values.replicaCount }}{{ end }}
{{- end }}

{{/* Stops with the first value that is missing or that contradicts another one. */}}
{{- define "openvibe.check" -}}
{{- if not .Values.publicUrl }}{{ fail "publicUrl is required: set it to the address that people use, such as https://chat.example.org" }}{{ end }}
{{- $hasDatabase := or .Values.database.url .Values.database.existingSecret }}
{{- if and .Values.sqlite.enabled $hasDatabase }}{{ fail "sqlite.enabled and database exclude each other: remove one of them" }}{{ end }}
{{- if and .Values.sqlite.enabled (or .Values.nats.url .Values.nats.existingSecret) }}{{ fail "nats needs PostgreSQL: set database instead of sqlite" }}{{ end }}
{{- if not (or .Values.sqlite.enabled $hasDatabase) }}{{ fail "a PostgreSQL database is required: set database.url or database.existingSecret, or sqlite.enabled for one node" }}{{ end }}
{{- range $name := list "database" "nats" }}
{{- $value := index $.Values $name }}
{{- if and $value.url $value.existingSecret }}{{ fail (printf "%s.url and %s.existingSecret exclude each other: remove one of them" $name $name) }}{{ end }}
{{- end }}
{{- if and (or .Values.nats.url .Values.nats.existingSecret) (not (or .Values.secretKey.existingSecret .Values.env.OPENVIBE_SECRET_KEY .Values.envFrom)) }}{{ fail "NATS needs OPENVIBE_SECRET_KEY, which encrypts the messages between nodes: set secretKey.existingSecret" }}{{ end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.existingSecret) }}{{ fail "a ServiceMonitor needs the token of the metrics: set metrics.existingSecret" }}{{ end }}
{{- if and (gt (int .Values.replicaCount) 4) (not (or .Values.nats.url .Values.nats.existingSecret)) }}{{ fail (printf "%d nodes need NATS, and the limit is 4 without it: set nats.url or nats.existingSecret" (int .Values.replicaCount)) }}{{ end }}
{{- end }}
