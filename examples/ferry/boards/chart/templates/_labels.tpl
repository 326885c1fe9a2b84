{{- define "boards.labels" -}}
app.kubernetes.io/name: board
app.kubernetes.io/part-of: ferry
app.kubernetes.io/instance: {{ .release }}-{{ .pier }}
{{- end }}
