import { randomUUID } from 'node:crypto'
import type { Log } from './log.ts'
import { startTracing, type Tracing } from './tracing.ts'
import type { TracingSettings } from './tracing-settings.ts'

/**
 * undefined when calls are not to be traced; nothing of the libraries for it is loaded then. Rejects as
 * `startTracing` does.
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
