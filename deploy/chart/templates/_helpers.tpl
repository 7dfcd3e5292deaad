{{- define "image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- /* As whom and where the pods of a Deployment run. Its replicas are spread over nodes and zones, as far as there are some. */ -}}
{{- define "placement" -}}
securityContext:
  runAsNonRoot: true
{{- with .root.Values.runAsUser }}
  runAsUser: {{ int . }}
  runAsGroup: {{ int . }}
{{- end }}
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app: {{ .app }}}}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app: {{ .app }}}}
{{- with and .root.Values.priorityClass.create .root.Values.priorityClass.name | default .role.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .role.nodeSelector }}
nodeSelector:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .role.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .role.affinity }}
affinity:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "environment" -}}
- {name: T9KSCHED_LOG_FORMAT, value: {{ .role.env.T9KSCHED_LOG_FORMAT | default "json" | quote }}}
{{- range $name, $value := .role.env }}
{{- if eq $name "POD_IP" "T9KSCHED_DB" "T9KSCHED_HEALTH_HOST" "T9KSCHED_HEALTH_PORT" "T9KSCHED_INTERNAL_ADDRESS" "T9KSCHED_INTERNAL_HOST" "T9KSCHED_INTERNAL_PORT" "T9KSCHED_INTERNAL_SECRET" "T9KSCHED_LEAVE_SECONDS" "T9KSCHED_REST_ADDRESS" "T9KSCHED_REST_EXEC" }}
{{- fail (printf "env.%s: the chart sets it itself" $name) }}
{{- end }}
{{- if ne $name "T9KSCHED_LOG_FORMAT" }}
- {name: {{ $name | quote }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "database" -}}
- name: T9KSCHED_DB
{{- if .Values.database.secretName }}
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secretName | quote }}, key: {{ .Values.database.secretKey | quote }}}}
{{- else }}
  valueFrom: {secretKeyRef: {name: {{ .Values.secretName | quote }}, key: T9KSCHED_DB}}
{{- end }}
{{- end -}}

{{- /* What every container has: as little as the Pod Security Standard "restricted" asks for. */ -}}
{{- define "container" -}}
image: {{ include "image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
{{- toYaml .role.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "budget" -}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .app }}
  namespace: t9k-system
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  selector: {matchLabels: {app: {{ .app }}}}
{{- end -}}
