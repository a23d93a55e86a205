import { randomUUID } from 'node:crypto'
import type { Log } from '../log/log.ts'
import { startTracing, type Tracing } from './tracing.ts'
import type { TracingSettings } from './tracing-settings.ts'

/**
 * Starts tracing. When tracing is disabled, resolves with undefined and does not load the tracing libraries.
 * Rejects as `startTracing` does.
 */
export async function openTracing(settings: TracingSettings, log: Log): Promise<Tracing | undefined> {
  if (settings.tracingEnabled === 'false') return undefined
  return await startTracing({
    exporterProtocol: settings.tracingExporterProtocol,
    serviceName: settings.tracingServiceName,
    serviceNamespace: settings.tracingServiceNamespace,
    serviceInstanceId: settings.tracingServiceInstanceId || randomUUID(),
    samplingRate: settings.tracingSamplingRate,
    log,
  })
}
