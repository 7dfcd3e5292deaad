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
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
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
- {name: T9KSCHED_LOG_FORMAT, value: json}
{{- range $name, $value := .role.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- define "database" -}}
- name: T9KSCHED_DB
{{- if .Values.database.secretName }}
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secretName }}, key: {{ .Values.database.secretKey }}}}
{{- else }}
  valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: T9KSCHED_DB}}
{{- end }}
{{- end -}}

{{- /* What every container has: as little as the Pod Security Standard "restricted" asks for. */ -}}
{{- define "container" -}}
image: {{ include "image" .root }}
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
