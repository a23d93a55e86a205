import assert from 'node:assert/strict'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import { type RateLimitDomain, rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { parseYaml } from '@tollway/ratelimit/rules/yaml/parse-yaml.ts'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { createSessionTable } from '../../operator/pods/session-table.ts'
import { createPodSessions } from '../../operator/ratelimit-queries/create-pod-sessions.ts'
import { processSessions } from '../../operator/ratelimit-queries/process-session.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { type RateLimitProcess, startRateLimit } from './rate-limit-process.ts'
import type { Cleanup } from './tollway.ts'
import { startDeadlineMs, waitFor } from './wait-for.ts'

/** Parses a configuration in the format of files. */
export function domainOf(yaml: string): RateLimitDomain {
  const parsed = parseYaml('default/test', yaml)
  assert.ok('value' in parsed, JSON.stringify(parsed))
  return { ...parsed.value, name: 'default/test' }
}

/** Encodes a configuration for a what-if. */
export function resourceOf(yaml: string): Uint8Array {
  return encodeRateLimitDomain(domainOf(yaml)).bytes
}

let streams = 0

/** The feed of an operator with this configuration, and the sessions of its processes. */
export async function startReportingOperator(
  t: Cleanup,
  config: string | RateLimitDomain,
  options: Partial<Parameters<typeof createPodSessions>[0]> &
    Pick<Parameters<typeof createSessionTable>[1], 'isRemoved'> & {
      readonly port?: number
      /** The methods that replace the sessions of processes. */
      readonly methods?: readonly AnyMethod[]
    } = {},
) {
  const ids = () => `${++streams}`
  const feed = new Feed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const table = createSessionTable(processSessions(systemClock), {
    ...{ clock: systemClock, log: silentLog, isRemoved: options.isRemoved },
  })
  const deadlines = { counterMs: 10_000, forgetMs: 10_000 }
  const sessions = createPodSessions({ table, clock: systemClock, deadlines, ...options })
  const server = createGrpcServer({
    methods: [...feed.methods, ...(options.methods ?? table.methods)],
    onDefect: (_, error) => assert.fail(String(error)),
  })
  let stopping: Promise<void> | undefined
  const stop = () => {
    sessions.close()
    table.close()
    feed.close()
    stopping ??= server.drain(0)
    return stopping
  }
  t.after(stop)
  const bound = await server.listen({ host: '127.0.0.1', port: options.port ?? 0 })
  assert.ok('port' in bound)
  const { port } = bound
  const publish = (next: string | RateLimitDomain) => {
    const domain = typeof next === 'string' ? domainOf(next) : next
    feed.publish(createSnapshot(rateLimitTypeUrl, [encodeRateLimitDomain(domain)]))
  }
  publish(config)
  return { port, sessions, table, publish, stop }
}

/** Starts a rate limit process that follows the feed at this port as the pod with this uid. */
export async function startReportingProcess(
  t: Cleanup,
  feedPort: number,
  uid: string,
  env: Readonly<Record<string, string>> = {},
): Promise<RateLimitProcess> {
  const started = await startRateLimit(t, {
    BACKEND_TYPE: 'memory',
    USE_STATSD: 'false',
    DISABLE_STATS: 'true',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
    CONFIG_GRPC_XDS_NODE_ID: uid,
    CONFIG_GRPC_XDS_NODE_METADATA: `uid:${uid},pod:${uid},namespace:default`,
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '50ms',
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '50ms',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '200ms',
    XDS_CLIENT_KEEPALIVE_INTERVAL: '1s',
    XDS_CLIENT_KEEPALIVE_TIMEOUT: '1s',
    ...env,
  })
  // Processes of several tests start at once.
  const isHealthy = async () => (await started.health()) === 200
  await waitFor('the process to be healthy', isHealthy, startDeadlineMs)
  return started
}
