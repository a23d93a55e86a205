import { logSettings } from '@tollway/chassis/log/log-settings.ts'
import { boolean, durationMs, integer, settingsTable, text } from '@tollway/chassis/settings.ts'
import { grpcServerSettings } from '@tollway/grpc/server/server-settings.ts'

const port = integer(0, 65_535)

export const serverSettings = settingsTable({
  host: { name: 'HOST', kind: text, fallback: '0.0.0.0', help: 'The address of the HTTP server.' },
  port: { name: 'PORT', kind: port, fallback: '8080', help: 'The port of the HTTP server.' },
  ...grpcServerSettings('8081'),
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the debug server.',
  },
  debugPort: { name: 'DEBUG_PORT', kind: port, fallback: '6070', help: 'The port of the debug server.' },
  workers: {
    name: 'WORKERS',
    kind: integer(1, 64),
    fallback: '1',
    help: 'The number of processes that share the ports.',
  },
  reusePort: {
    name: 'REUSE_PORT',
    kind: boolean,
    fallback: 'false',
    help: 'Share the gRPC and HTTP ports with other processes of this service on the machine.',
  },
  quotaMemoryBytes: {
    name: 'QUOTA_MEMORY_BYTES',
    kind: integer(0, 2 ** 40),
    fallback: `${128 * 1024 * 1024}`,
    help:
      'The memory in bytes for the buckets that proxies report for rules of delivery: Quota, about 2,200 for each bucket ' +
      'of each proxy. Further buckets get no share.',
  },
  drainDelayMs: {
    name: 'DRAIN_DELAY',
    kind: durationMs,
    fallback: '5s',
    help: 'The time after SIGTERM in which the process is unhealthy and still accepts calls.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '10s',
    help: 'The time after DRAIN_DELAY at which running calls are closed.',
  },
  healthyWithConfig: {
    name: 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED',
    kind: boolean,
    fallback: 'false',
    help: 'Be healthy only while at least one domain is loaded.',
  },
  ...logSettings('warn'),
})
