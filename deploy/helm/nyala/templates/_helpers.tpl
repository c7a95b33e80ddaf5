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

{{/* Labels that never change, by which services find the pods of all nodes. */}}
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
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/*
Nodes that take statements and read no files for others have a StatefulSet of their own. Its name has 52 characters at most: Kubernetes writes
it with a hash into a label of its pods.
*/}}
{{- define "nyala.coordinators" -}}
{{- printf "%s-coordinator" (include "nyala.fullname" . | trunc 40 | trimSuffix "-") -}}
{{- end -}}

{{/* The component that clients connect to. */}}
{{- define "nyala.entrance" -}}
{{- if gt (int .Values.coordinators.replicaCount) 0 }}coordinator{{ else }}node{{ end -}}
{{- end -}}

{{/* Whether there may be more than one node. */}}
{{- define "nyala.hasSeveral" -}}
{{- if or (gt (int .Values.replicaCount) 1) (gt (int .Values.coordinators.replicaCount) 0) .Values.autoscaling.enabled -}}
true
{{- end -}}
{{- end -}}

{{/* The name of the port for HTTP, which tells its protocol. */}}
{{- define "nyala.httpPortName" -}}
{{- if .Values.tls.secretName }}https{{ else }}http{{ end -}}
{{- end -}}
