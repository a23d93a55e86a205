import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import type { RateLimitDomain, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const swaps = process.env['SOAK'] === '1' ? 10_000 : 300
const callsInFlight = 20
const baseLimit = 1_000_000
const uid = 'the-only-process'

/** The k-th configuration: two rules with the same limit, which no other configuration has. */
function configuration(k: number): RateLimitDomain {
  const rule = (key: string): RateLimitRule => ({
    key,
    value: '',
    rateLimit: { unit: 'day', requestsPerUnit: baseLimit + k, unlimited: false, name: '', replaces: [] },
    shadowMode: false,
    detailedMetric: false,
    quotaMode: false,
    valueToMetric: false,
    shareThreshold: false,
    descriptors: [],
  })
  return { name: 'default/swapped', domain: 'swapped', descriptors: [rule('a'), rule('b')] }
}

/** Starts the operator's feed behind a real server. */
async function startFeed(t: Cleanup) {
  let streams = 0
  const ids = () => `${++streams}`
  const feed = new Feed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({
    methods: feed.methods,
    onDefect: (_, error) => assert.fail(String(error)),
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  t.after(async () => {
    feed.close()
    await server.drain(0)
  })
  let wake = () => {}
  feed.onChange(() => wake())
  return {
    address: `127.0.0.1:${bound.port}`,
    /** Resolves when the process has acknowledged it. */
    async putInForce(domain: RateLimitDomain): Promise<void> {
      const resource = encodeRateLimitDomain(domain)
      feed.publish(createSnapshot(rateLimitTypeUrl, [resource]))
      while (!feed.enforcement(rateLimitTypeUrl, [uid])(resource).acknowledged.has(uid)) {
        await new Promise<void>(resolve => (wake = resolve))
      }
    },
  }
}

/** Calls continuously, and collects the errors and the configurations that decided. */
function startLoad(shouldRateLimit: ReturnType<typeof callRateLimit>['shouldRateLimit']) {
  const descriptors = ['a', 'b'].map(key => ({ entries: [{ key, value: 'x' }] }))
  const failures: string[] = []
  const seen = new Set<number>()
  let calls = 0
  let running = true

  async function call(): Promise<void> {
    const { overallCode, statuses } = await shouldRateLimit({ domain: 'swapped', descriptors })
    const limits = statuses.map(({ currentLimit }) => currentLimit?.requestsPerUnit)
    if (
      overallCode !== Code.OK ||
      limits.length !== 2 ||
      limits[0] === undefined ||
      limits[0] !== limits[1]
    ) {
      failures.push(`code ${overallCode}, limits ${limits}`)
    }
    seen.add(limits[0] ?? 0)
    calls += 1
  }

  const callers = Array.from({ length: callsInFlight }, async () => {
    while (running) await call().catch(error => failures.push(String(error)))
  })
  return {
    failures,
    seen,
    calls: () => calls,
    async stop() {
      running = false
      await Promise.all(callers)
    },
  }
}

test(`${swaps} swaps under load: no call fails, and none is decided by two configurations`, async t => {
  const feed = await startFeed(t)
  const service = await startRateLimit(t, {
    DISABLE_STATS: 'true',
    BACKEND_TYPE: 'memory',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: feed.address,
    CONFIG_GRPC_XDS_NODE_METADATA: `uid:${uid}`,
    LOG_LEVEL: 'warn',
  })
  await feed.putInForce(configuration(0))
  await service.serves()
  const load = startLoad(callRateLimit(t, service.grpcPort).shouldRateLimit)
  await waitFor('the load', () => load.calls() > callsInFlight)
  for (let k = 1; k <= swaps; k++) await feed.putInForce(configuration(k))
  const last = baseLimit + swaps
  await waitFor('a decision of the last configuration', () => load.seen.has(last))
  await load.stop()
  assert.deepEqual(load.failures.slice(0, 10), [])
  const stats = await service.stats()
  assert.equal(stats['ratelimit.service.config_load_success'], swaps + 1)
  assert.equal(stats['ratelimit.service.config_load_error'], 0)
  assert.ok(load.seen.size > swaps / 10, `${load.seen.size} configurations decided something`)
  t.diagnostic(`${load.calls()} calls, decided by ${load.seen.size} configurations`)
  assert.equal(service.program.output(), '')
})
