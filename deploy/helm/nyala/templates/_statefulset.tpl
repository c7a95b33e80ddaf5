{{/*
A StatefulSet of nodes. Takes a dictionary: `root`, the context of the chart; `name`; `component`; `replicas`, or none where something else
decides; `resources`; `size` of the volume; `executor`, whether the nodes read files for others.
*/}}
{{- define "nyala.statefulset" -}}
{{- $root := .root }}
{{- $values := $root.Values }}
{{- $fullname := include "nyala.fullname" $root }}
{{- $scheme := ternary "HTTPS" "HTTP" (ne $values.tls.secretName "") }}
{{- /* A pod that ends is still sent connections until all of Kubernetes knows. */}}
{{- $delay := ternary (int $values.stopDelaySeconds) 0 (semverCompare ">=1.30.0-0" $root.Capabilities.KubeVersion.Version) }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  labels:
    {{- include "nyala.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- with .replicas }}
  replicas: {{ . }}
  {{- end }}
  serviceName: {{ include "nyala.nodes" $root }}
  # Nodes do not wait for each other: one that does not start keeps no other from it.
  podManagementPolicy: Parallel
  {{- with $values.updateStrategy }}
  updateStrategy: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.persistence.retentionPolicy }}
  persistentVolumeClaimRetentionPolicy: {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "nyala.selectorLabels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      # Without the version of the chart: another one alone is no reason for a restart.
      labels:
        {{- include "nyala.selectorLabels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        # The configuration is read once, at the start.
        checksum/config: {{ $values.config | sha256sum }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "nyala.serviceAccountName" $root }}
      automountServiceAccountToken: false
      # The server's variables are its configuration: those of services would be in the way.
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ add $values.shutdownGraceSeconds $delay 30 }}
      securityContext: {{- toYaml $values.podSecurityContext | nindent 8 }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.initContainers }}
      initContainers: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: nyala
          image: {{ include "nyala.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args: [serve]
          securityContext: {{- toYaml $values.securityContext | nindent 12 }}
          env: {{- include "nyala.variables" . | nindent 12 }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $values.extraEnvFrom }}
          envFrom: {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: postgres
              containerPort: 5433
            - name: http
              containerPort: 8090
            {{- if $values.flight.enabled }}
            - name: flight
              containerPort: 50051
            {{- end }}
            {{- if $values.kylin.enabled }}
            - name: kylin
              containerPort: 7070
            {{- end }}
            {{- if $values.cluster.enabled }}
            - name: nodes
              containerPort: 7433
            {{- end }}
          {{- if gt $delay 0 }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ $delay }}
          {{- end }}
          # A first start may have to make or to move much; the others begin once this has succeeded.
          startupProbe:
            httpGet:
              path: /readyz
              port: http
              scheme: {{ $scheme }}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: {{ max 1 (div $values.startupSeconds 2) }}
          readinessProbe:
            httpGet:
              path: /readyz
              port: http
              scheme: {{ $scheme }}
            periodSeconds: 5
            timeoutSeconds: 5
          # Slow, so that a busy server is not restarted: it answers while the process lives.
          livenessProbe:
            httpGet:
              path: /healthz
              port: http
              scheme: {{ $scheme }}
            periodSeconds: 10
            timeoutSeconds: 10
            failureThreshold: 6
          resources: {{- toYaml .resources | nindent 12 }}
          volumeMounts:
            - name: data
              mountPath: /var/lib/nyala
            - name: config
              mountPath: /etc/nyala/nyala.toml
              subPath: nyala.toml
              readOnly: true
            - name: auth
              mountPath: /etc/nyala/auth
              readOnly: true
            {{- if $values.tls.secretName }}
            - name: tls
              mountPath: /etc/nyala/tls
              readOnly: true
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with $values.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        - name: config
          configMap:
            name: {{ $fullname }}
        - name: auth
          secret:
            secretName: {{ include "nyala.secretName" $root }}
            defaultMode: 0440
            items:
              - key: password
                path: password
        {{- if $values.tls.secretName }}
        - name: tls
          secret:
            secretName: {{ $values.tls.secretName }}
            defaultMode: 0440
        {{- end }}
        {{- if not $values.persistence.enabled }}
        - name: data
          emptyDir:
            sizeLimit: {{ .size }}
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.affinity }}
      affinity: {{- toYaml $values.affinity | nindent 8 }}
      {{- else if include "nyala.hasSeveral" $root }}
      # So that the loss of a machine is the loss of one node, where there are machines enough.
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    {{- include "nyala.selectorLabels" $root | nindent 20 }}
                    app.kubernetes.io/component: {{ .component }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints: {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- if $values.persistence.enabled }}
  volumeClaimTemplates:
    - metadata:
        name: data
        labels: {{- include "nyala.selectorLabels" $root | nindent 10 }}
        {{- with $values.persistence.annotations }}
        annotations: {{- toYaml . | nindent 10 }}
        {{- end }}
      spec:
        accessModes: {{- toYaml $values.persistence.accessModes | nindent 10 }}
        {{- with $values.persistence.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ .size }}
  {{- end }}
{{- end -}}

{{/* The variables of a node: what the chart decides of its configuration. */}}
{{- define "nyala.variables" -}}
{{- $values := .root.Values -}}
- name: NYALA_CONFIG
  value: /etc/nyala/nyala.toml
{{- with $values.log }}
- name: NYALA_LOG
  value: {{ . | quote }}
{{- end }}
- name: NYALA_LOG_FORMAT
  value: {{ $values.logFormat }}
- name: NYALA_DATA_DIR
  value: /var/lib/nyala
- name: NYALA_SERVER__POSTGRES_LISTEN
  value: "0.0.0.0:5433"
- name: NYALA_SERVER__HTTP_LISTEN
  value: "0.0.0.0:8090"
{{- if $values.flight.enabled }}
- name: NYALA_SERVER__FLIGHT_LISTEN
  value: "0.0.0.0:50051"
{{- end }}
{{- if $values.kylin.enabled }}
- name: NYALA_SERVER__KYLIN_LISTEN
  value: "0.0.0.0:7070"
{{- end }}
- name: NYALA_SERVER__AUTHENTICATION
  value: password
- name: NYALA_SERVER__FIRST_USER
  value: {{ $values.auth.username | quote }}
- name: NYALA_SERVER__FIRST_PASSWORD_FILE
  value: /etc/nyala/auth/password
- name: NYALA_SERVER__SHUTDOWN_GRACE_MS
  value: {{ mul $values.shutdownGraceSeconds 1000 | quote }}
{{- if $values.tls.secretName }}
- name: NYALA_SERVER__TLS__CERTIFICATE
  value: /etc/nyala/tls/tls.crt
- name: NYALA_SERVER__TLS__KEY
  value: /etc/nyala/tls/tls.key
{{- end }}
{{- if $values.cluster.enabled }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: NYALA_NODE__LISTEN
  value: "0.0.0.0:7433"
- name: NYALA_NODE__ADDRESS
  value: "$(POD_NAME).{{ include "nyala.nodes" .root }}.{{ .root.Release.Namespace }}.svc:7433"
- name: NYALA_NODE__SECRET
  valueFrom:
    secretKeyRef:
      name: {{ include "nyala.secretName" .root }}
      key: node-secret
{{- if not .executor }}
- name: NYALA_NODE__EXECUTOR
  value: "false"
{{- end }}
- name: NYALA_CATALOG__URL
  valueFrom:
    secretKeyRef:
      name: {{ $values.cluster.catalogUrlSecret }}
      key: {{ $values.cluster.catalogUrlSecretKey }}
- name: NYALA_STORAGE__DATA
  value: {{ $values.cluster.storageData | quote }}
{{- end }}
{{- end -}}
