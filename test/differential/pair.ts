import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type JsonValue, type MessageInitShape, toJson } from '@bufbuild/protobuf'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import {
  type RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Cleanup } from '../support/tollway.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'
import { type ReferenceProcess, startReference } from './start-reference.ts'
import { listenStatsd, type StatsdSums } from './statsd-sums.ts'

export type Request = MessageInitShape<typeof RateLimitRequestSchema>

/** An answer, or the status of an error, as JSON. */
export type Answer = { readonly [name: string]: JsonValue }

/** One of the two services. */
export interface Side {
  readonly name: 'ours' | 'reference'
  ask(request: Request): Promise<Answer>
  /** Resolves with the status and the body of /json. */
  askJson(body: string | Uint8Array<ArrayBuffer>): Promise<{ readonly status: number; readonly body: string }>
  /**
   * Returns the keys of a domain in Redis, without this side's prefix, with their values and remaining times.
   */
  counters(
    domain: string,
  ): Promise<ReadonlyMap<string, { readonly value: string; readonly ttlSeconds: number }>>
  /** Returns the sums of the counters that were sent to its statsd server so far. */
  sums(): ReadonlyMap<string, number>
  /** Returns the names that were sent as `|g` or `|ms` so far. */
  gaugesAndTimers(): ReadonlySet<string>
}

/** The service and the reference, with the same settings and configuration, and one Redis. */
export interface Pair {
  readonly ours: Side & { readonly process: RateLimitProcess }
  readonly reference: Side & { readonly process: ReferenceProcess }
  /** Sends a request to both at the same time, and returns both answers. */
  ask(request: Request): Promise<{ readonly ours: Answer; readonly reference: Answer }>
}

export interface PairOptions {
  readonly redis: RedisServer
  /** The text of each configuration file. */
  readonly files: readonly string[]
  /** Settings of both, by the reference's names. */
  readonly env?: Readonly<Record<string, string>>
}

/** The reference waits indefinitely for its backend, which can be slow on a busy machine. */
const patience = { BACKEND_DEADLINE: '10s' }

export async function startPair(t: Cleanup, { redis, files, env = {} }: PairOptions): Promise<Pair> {
  const folder = temporaryFolder('tollway-pair')
  mkdirSync(join(folder, 'config'))
  for (const [index, text] of files.entries()) writeFileSync(join(folder, 'config', `${index}.yaml`), text)
  const shared = {
    RUNTIME_ROOT: folder,
    RUNTIME_WATCH_ROOT: 'false',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: `127.0.0.1:${redis.port}`,
    EXPIRATION_JITTER_MAX_SECONDS: '0',
    USE_STATSD: 'true',
    STATSD_HOST: '127.0.0.1',
    STATS_FLUSH_INTERVAL: '50ms',
    ...env,
  }
  const [ourStats, itsStats] = await Promise.all([listenStatsd(), listenStatsd()])
  t.after(() => ourStats.close())
  t.after(() => itsStats.close())
  const own = (prefix: string, { port }: StatsdSums) => ({
    ...shared,
    CACHE_KEY_PREFIX: prefix,
    STATSD_PORT: `${port}`,
  })
  const [service, reference] = await Promise.all([
    startRateLimit(t, { ...patience, ...own('ours:', ourStats) }),
    startReference(t, own('reference:', itsStats)),
  ])
  await waitUntilHealthy(service)
  const ours = { ...createSide(t, 'ours', service, redis, ourStats), process: service }
  const its = { ...createSide(t, 'reference', reference, redis, itsStats), process: reference }
  return {
    ours,
    reference: its,
    async ask(request) {
      const [own, other] = await Promise.all([ours.ask(request), its.ask(request)])
      return { ours: own, reference: other }
    },
  }
}

async function waitUntilHealthy({ program, health }: RateLimitProcess): Promise<void> {
  const ended = () => program.process.exitCode !== null
  const settled = async () => ended() || (await health()) === 200
  const said = () => `\nit said: ${program.output()}`
  await waitFor('our service to be healthy', settled, startDeadlineMs).catch(error => {
    throw new Error(error.message + said())
  })
  if (ended()) throw new Error(`our service ended${said()}`)
}

interface Ports {
  readonly grpcPort: number
  readonly httpPort: number
}

function createSide(
  t: Cleanup,
  name: Side['name'],
  ports: Ports,
  redis: RedisServer,
  stats: StatsdSums,
): Side {
  const { shouldRateLimit } = callRateLimit(t, ports.grpcPort)
  return {
    name,
    async ask(request) {
      try {
        return toJson(RateLimitResponseSchema, await shouldRateLimit(request)) as Answer
      } catch (error) {
        if (!(error instanceof GrpcError)) throw error
        return { status: statusName(error.code), message: error.message }
      }
    },
    async askJson(body) {
      const response = await fetch(`http://127.0.0.1:${ports.httpPort}/json`, { method: 'POST', body })
      return { status: response.status, body: await response.text() }
    },
    counters: domain => readCounters(redis, `${name}:`, domain),
    sums: () => stats.counters,
    gaugesAndTimers: () => stats.gaugesAndTimers,
  }
}

/** A key can contain any character, so they are returned as one JSON text. */
const dumpScript = `local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ARGV[2] .. '_*')) do
  all[#all + 1] = {string.sub(key, #ARGV[1] + 1), redis.call('GET', key), redis.call('TTL', key)}
end
return cjson.encode(all)`

async function readCounters(redis: RedisServer, prefix: string, domain: string) {
  const dump = await redis.command('EVAL', dumpScript, '0', prefix, domain)
  const rows = JSON.parse(dump === '{}' ? '[]' : dump) as [string, string, number][]
  return new Map(rows.map(([key, value, ttlSeconds]) => [key, { value, ttlSeconds }]))
}
