{{/* Labels that select all pods of the release. */}}
{{- define "outboxd.selector" -}}
app.kubernetes.io/name: outboxd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "outboxd.labels" -}}
{{ include "outboxd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "outboxd.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Object that is posted to Kafka Connect: no value needs an escape of its own. Takes root, name and connector. */}}
{{- define "outboxd.config" -}}
{{- $config := mergeOverwrite (dict "name" .name) (deepCopy .root.Values.config) (deepCopy (.connector.config | default dict)) -}}
{{- dict "name" $config.name "config" $config | toPrettyJson -}}
{{- end }}

{{/* Ports that a connector connects to, one a line. Takes the merged configuration, and root. */}}
{{- define "outboxd.ports" -}}
{{- $ports := list (index .config "database.port" | default 5432 | int) -}}
{{- range regexFindAll ":[0-9]+" (index .config "bootstrap.servers" | default ":9092") -1 -}}
{{- $ports = append $ports (trimPrefix ":" . | int) -}}
{{- end -}}
{{- range .root.Values.networkPolicy.ports -}}
{{- $ports = append $ports (int .) -}}
{{- end -}}
{{- range $ports | uniq }}
- port: {{ . }}
{{- end -}}
{{- end }}
