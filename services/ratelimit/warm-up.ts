import { systemClock } from '@tollway/chassis/clock.ts'
import { callRepeatedly } from '@tollway/grpc/client/call-repeatedly.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { createMemoryCounters } from './counters/memory.ts'
import { type LimiterSettings, openLimiter } from './limiter/open-limiter.ts'
import { compile } from './rules/compile.ts'
import { rateLimitMethods } from './servers/grpc-methods.ts'
import { createLimitStats } from './stats/limit-stats.ts'
import { createStats } from './stats/stats.ts'

/** After this many calls, V8 has compiled the code that a call runs. */
const warmUpCalls = 40
/** The warm-up ends after this time, even if not all calls were answered. */
const warmUpMs = 2_000

const descriptor = {
  value: '',
  shadowMode: false,
  detailedMetric: false,
  quotaMode: false,
  valueToMetric: false,
  shareThreshold: false,
  descriptors: [],
}
const rateLimit = { unit: 'hour', requestsPerUnit: 1000, unlimited: false, name: '', replaces: [] }
const config = { name: 'warm-up', domain: 'warm-up', descriptors: [{ ...descriptor, key: 'key', rateLimit }] }

/** A RateLimitRequest of the domain `warm-up` with one descriptor, `key=value`. */
const request = lengthDelimited(
  1,
  Buffer.from('warm-up'),
  lengthDelimited(
    2,
    lengthDelimited(1, lengthDelimited(1, Buffer.from('key'), lengthDelimited(2, Buffer.from('value')))),
  ),
)

/**
 * Makes calls to a server on the loopback address that exists only for the warm-up, with separate rules,
 * counters in memory and statistics, so that no real counter or statistic changes. The first call of a
 * process takes many times as long as the next ones, because JavaScript is compiled when it runs first: on a
 * busy machine longer than the timeout of Envoy. Resolves with the number of calls that were answered. Never
 * rejects.
 */
export async function warmUp(settings: LimiterSettings): Promise<number> {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const rules = compile([config], { mergeDomainConfigs: false, attach: limitStats.attach })
  const counters = createMemoryCounters({ clock: systemClock })
  const limiter = openLimiter(
    { ...settings, backendFailureMode: 'error', localCacheBytes: 0 },
    {
      rules: () => rules,
      // The counters answer later, like Redis.
      counters: { add: async batch => counters.add(batch) },
      errors: { succeeded() {}, failed() {} },
      stats,
      limitStats,
      clock: systemClock,
      random: Math.random,
      startCounting: undefined,
    },
  )
  const methods = rateLimitMethods({ limiter, stats, clock: systemClock })
  const server = createGrpcServer({ methods, onDefect() {} })
  const [path = ''] = methods.map(method => method.path)
  try {
    const bound = await server.listen({ host: '127.0.0.1', port: 0 })
    if (!('port' in bound)) return 0
    const signal = AbortSignal.timeout(warmUpMs)
    return await callRepeatedly({ port: bound.port, path, message: request, calls: warmUpCalls, signal })
  } catch {
    return 0
  } finally {
    await server.drain(0)
  }
}

/** Encodes a protobuf field with fewer than 128 bytes, and appends the fields after it. */
function lengthDelimited(field: number, content: Uint8Array, ...next: readonly Uint8Array[]): Buffer {
  return Buffer.concat([Buffer.from([(field << 3) | 2, content.length]), content, ...next])
}
