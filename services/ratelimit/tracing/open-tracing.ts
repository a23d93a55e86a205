import { randomUUID } from 'node:crypto'
import type { Log } from '@tollway/chassis/log.ts'
import { startTracing, type Tracing } from '@tollway/chassis/tracing.ts'
import { type StartCounting, startMemcachedCounting, startRedisCounting } from './spans.ts'

/** The settings of tracing, as `settings.ts` reads them. */
export interface TracingSettings {
  readonly tracingEnabled: 'true' | 'false'
  readonly tracingExporterProtocol: 'http' | 'grpc'
  readonly tracingServiceName: string
  readonly tracingServiceNamespace: string
  /** Empty for a random one. */
  readonly tracingServiceInstanceId: string
  readonly tracingSamplingRate: number
}

/** undefined when calls are not to be traced; nothing of the libraries for it is loaded then. */
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

/** The span of each backend's counting. In this process's memory it is none of its own. */
export const countingSpans: Readonly<Record<'redis' | 'memcache' | 'memory', StartCounting | undefined>> = {
  redis: startRedisCounting,
  memcache: startMemcachedCounting,
  memory: undefined,
}
