import { decimal, oneOf, type SettingValues, settingsTable, text } from '../settings.ts'

export function tracingSettings(defaultServiceName: string) {
  return settingsTable({
    tracingEnabled: {
      name: 'TRACING_ENABLED',
      kind: oneOf('true', 'false'),
      fallback: 'false',
      help: 'Export traces of calls by OTLP. The standard variables OTEL_EXPORTER_OTLP_… set the endpoint.',
    },
    tracingExporterProtocol: {
      name: 'TRACING_EXPORTER_PROTOCOL',
      kind: oneOf('http', 'grpc'),
      fallback: 'http',
      help: 'The protocol of the export: OTLP over HTTP or over gRPC.',
    },
    tracingServiceName: {
      name: 'TRACING_SERVICE_NAME',
      kind: text,
      fallback: defaultServiceName,
      help: 'The name of this service in traces.',
    },
    tracingServiceNamespace: {
      name: 'TRACING_SERVICE_NAMESPACE',
      kind: text,
      fallback: '',
      help: 'The namespace of this service in traces.',
    },
    tracingServiceInstanceId: {
      name: 'TRACING_SERVICE_INSTANCE_ID',
      kind: text,
      fallback: '',
      help: 'The name of this process in traces. Empty means a random UUID (version 4).',
    },
    tracingSamplingRate: {
      name: 'TRACING_SAMPLING_RATE',
      kind: decimal(0, 1),
      fallback: '1',
      help: 'The share of calls that are traced, among the calls without a decision of the caller.',
    },
  })
}

export type TracingSettings = SettingValues<ReturnType<typeof tracingSettings>>
