{{/* Name of the release's objects. */}}
{{- define "nyala.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The headless service, whose name is a part of each node's. */}}
{{- define "nyala.nodes" -}}
{{- printf "%s-nodes" (include "nyala.fullname" .) -}}
{{- end -}}

{{/* Labels that never change, by which services find pods. */}}
{{- define "nyala.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nyala.labels" -}}
{{ include "nyala.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The secret with the first user's password and the secret of the nodes. */}}
{{- define "nyala.secretName" -}}
{{- default (include "nyala.fullname" .) .Values.auth.existingSecret -}}
{{- end -}}

{{- define "nyala.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "nyala.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "nyala.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* What the processes of the server and of tests may do: nothing that root may. */}}
{{- define "nyala.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{- define "nyala.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
