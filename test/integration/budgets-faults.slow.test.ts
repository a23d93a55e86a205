import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { callBudgets } from '../support/call-budgets.ts'
import {
  encodeDomain,
  encodeResponse,
  type LimitDomainMessage,
  startLimitFeed,
} from '../support/limit-feed.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startRedisSentinels } from '../support/redis-sentinels.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const budget = 100
const maxConcurrent = 10
const unit = RateLimitUnit.YEAR
type Descriptors = NonNullable<LimitDomainMessage['descriptors']>

const tokens = (requestsPerUnit: number, algorithm = RateLimitAlgorithm.FIXED_WINDOW) => ({
  key: 'tokens',
  rateLimit: { unit, requestsPerUnit, algorithm },
})
const holds = (most = maxConcurrent, leaseSeconds = 60) => ({
  key: 'holds',
  rateLimit: { algorithm: RateLimitAlgorithm.CONCURRENCY, maxConcurrent: most, leaseSeconds },
})

/** Starts pods with these limits, which can be changed and restarted. */
async function startPods(
  t: TestContext,
  settings: Record<string, string>,
  count: number,
  limits: Descriptors,
) {
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  let version = 0
  const send = (descriptors: Descriptors) => {
    version += 1
    const resource = encodeDomain({ name: 'shop', domain: 'shop', descriptors })
    feed.send(encodeResponse(`${version}`, [resource]))
  }
  send(limits)
  const env = { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', ...settings, ...feed.settings }
  const startPod = async () => {
    const service = await startRateLimit(t, env)
    await service.serves()
    return { service, ...callBudgets(t, service.grpcPort), ...callRateLimit(t, service.grpcPort) }
  }
  const pods = await Promise.all(Array.from({ length: count }, startPod))
  const podOf = (number: number) => pods[number % count] ?? assert.fail()

  /** Repeats a call at one pod after the other until it is answered, or its error has another code. */
  async function until<T>(first: number, call: (pod: ReturnType<typeof podOf>) => Promise<T>): Promise<T> {
    let number = first
    const settled = await waitFor(
      'an answer',
      async () => {
        try {
          return { value: await call(podOf(number++)) }
        } catch (error) {
          if (error instanceof GrpcError && error.code === statusCodes.NOT_FOUND) return { error }
          throw error
        }
      },
      60_000,
    )
    if ('error' in settled) throw settled.error
    return settled.value
  }

  return {
    send,
    podOf,
    until,
    async killPod(number: number) {
      await podOf(number).service.program.end('SIGKILL')
      pods[number % count] = await startPod()
    },
    async reserve(key: string, value: string, amount: number, seconds: number, requestId = '') {
      const descriptor = { entries: [{ key, value }] }
      const ttl = { seconds: BigInt(seconds) }
      const request = { domain: 'shop', descriptor, amount: BigInt(amount), ttl, requestId }
      const { result } = await until(0, pod => pod.reserve(request))
      return result.case === 'reservation' ? result.value.id : undefined
    },
    /** Resolves with what remains, or with undefined if no limit matches. */
    async remaining(key: string, value: string, first = 0) {
      const descriptors = [{ entries: [{ key, value }], hitsAddend: 0n }]
      const { statuses } = await until(first, pod => pod.shouldRateLimit({ domain: 'shop', descriptors }))
      return statuses[0]?.currentLimit && statuses[0].limitRemaining
    },
  }
}

type Pods = Awaited<ReturnType<typeof startPods>>

/** Resolves with whether the reservation was known. */
async function isKnown(call: Promise<unknown>): Promise<boolean> {
  try {
    await call
    return true
  } catch (error) {
    assert.ok(error instanceof GrpcError && error.code === statusCodes.NOT_FOUND, String(error))
    return false
  }
}

/** Of these, replicas acknowledge the reservations and holds before the fault, */
const users = 30
/** and of as many users after them perhaps not. */
const lateUsers = 6
const ttlSeconds = 20

/**
 * Reserves before the fault, ends a third each by Commit, by Release and by time, and checks all counts.
 *
 * @param replicate resolves when what is reserved so far must not be lost any more
 * @returns the numbers of the users of those that the fault has lost
 */
async function survive(
  pods: Pods,
  fault: () => Promise<unknown>,
  replicate: () => Promise<unknown> = async () => {},
): Promise<readonly number[]> {
  const { reserve, until, remaining } = pods
  const reserved: { key: string; all: number; user: string; number: number; id: string; startMs: number }[] =
    []
  for (let number = 0; number < users + lateUsers; number++) {
    if (number === users) await replicate()
    for (const [key, all] of [
      ['tokens', budget],
      ['holds', maxConcurrent],
    ] as const) {
      const user = `u${number}`
      const startMs = performance.now()
      const id = await reserve(key, user, 7, number % 3 === 2 ? ttlSeconds : 60)
      reserved.push({ key, all, user, number, id: id ?? assert.fail(`${key} of ${user}`), startMs })
    }
  }
  await fault()
  const lost: number[] = []
  const endedByTime = reserved.filter(({ number }) => number % 3 === 2)
  for (const { key, all, user, number, startMs } of endedByTime) {
    const rest = await remaining(key, user)
    const tookMs = performance.now() - startMs
    assert.ok(tookMs < ttlSeconds * 1000, `the reservations were to live as long as the fault: ${tookMs} ms`)
    if (rest === all) lost.push(number)
    else assert.equal(rest, all - 7, `${key} of ${user}`)
  }
  for (const { key, all, user, number, id } of reserved) {
    if (number % 3 === 0) {
      const known = await isKnown(until(number, pod => pod.commit({ id, actual: 3n })))
      assert.equal(await remaining(key, user), known && key === 'tokens' ? all - 3 : all, `${key} of ${user}`)
      if (!known) lost.push(number)
    } else if (number % 3 === 1) {
      if (!(await isKnown(until(number, pod => pod.release({ id }))))) lost.push(number)
      assert.equal(await remaining(key, user), all, `${key} of ${user}`)
    }
  }
  for (const { key, all, user, number } of endedByTime) {
    await waitFor(`${key} of ${user} to return`, async () => (await remaining(key, user)) === all, 30_000)
    assert.ok(await reserve(key, user, 10, 60, `again ${number}`), `${key} of ${user}`)
    assert.equal(await remaining(key, user), all - 10)
  }
  return lost
}

/** Resolves when all replicas of these servers have acknowledged what the servers have written so far. */
async function replicateAll(servers: readonly RedisServer[]): Promise<void> {
  await Promise.all(
    servers.map(async server => {
      const read = () => server.command('INFO', 'replication')
      const written = Number(/master_repl_offset:(\d+)/.exec(await read())?.[1])
      await waitFor('the replicas', async () => {
        const offsets = [...(await read()).matchAll(/^slave\d+:.*,offset=(\d+)/gm)].map(([, at]) =>
          Number(at),
        )
        return offsets.length > 0 && offsets.every(offset => offset >= written)
      })
    }),
  )
}

function assertOnlyLateAreLost(lost: readonly number[]): void {
  assert.ok(
    lost.every(number => number >= users),
    `lost, though all replicas had it: ${lost.filter(number => number < users)}`,
  )
}

test('after a failover by sentinels, the new master has all reservations and holds that replicas had', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const all = await startRedisSentinels()
  t.after(() => all.stop())
  const settings = { KVSTORE_TYPE: 'sentinel', KVSTORE_URL: all.url }
  const pods = await startPods(t, settings, 2, [tokens(budget), holds()])
  const fault = () => all.master.kill('SIGKILL')
  assertOnlyLateAreLost(await survive(pods, fault, () => replicateAll([all.master])))
})

test('after the promotion of a replica in a cluster, it has all reservations and holds that it had', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const cluster = await startRedisCluster({ replicasPerMaster: 1 })
  t.after(() => cluster.stop())
  const settings = { KVSTORE_TYPE: 'cluster', KVSTORE_URL: cluster.url }
  const pods = await startPods(t, settings, 2, [tokens(budget), holds()])
  await cluster.failQuickly()
  const fault = async () => cluster.masters[0]?.kill('SIGKILL')
  assertOnlyLateAreLost(await survive(pods, fault, () => replicateAll(cluster.masters)))
})

test('after FLUSHALL all reservations are unknown, and limits count from 0', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const settings = { KVSTORE_URL: `127.0.0.1:${redis.port}` }
  const pods = await startPods(t, settings, 2, [tokens(budget), holds()])
  const lost = await survive(pods, () => redis.command('FLUSHALL'))
  assert.equal(lost.length, 2 * (users + lateUsers))
  const id = (await pods.reserve('tokens', 'next', 7, 60)) ?? assert.fail()
  await redis.command('FLUSHALL')
  assert.equal(await isKnown(pods.until(0, pod => pod.commit({ id, actual: 3n }))), false)
  assert.equal(await pods.remaining('tokens', 'next'), budget)
})

test('whichever pods are killed, no more than maxConcurrent holds are out, and they end with their lease', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const leaseSeconds = 3
  const settings = { KVSTORE_URL: `127.0.0.1:${redis.port}` }
  const pods = await startPods(t, settings, 3, [holds(maxConcurrent, leaseSeconds)])
  const { until, remaining, killPod } = pods
  /** When each hold was surely out: from its answer until its release or its expiry, in Unix milliseconds. */
  const spans: { readonly fromMs: number; readonly toMs: number }[] = []
  let isRunning = true
  t.after(async () => {
    isRunning = false
  })
  async function work(worker: number): Promise<void> {
    for (let round = 0; isRunning; round++) {
      const descriptor = { entries: [{ key: 'holds', value: 'all' }] }
      const request = { domain: 'shop', descriptor, amount: 1n, ttl: { seconds: 60n } }
      const named = { ...request, requestId: `${worker} ${round}` }
      const { result } = await until(worker, pod => pod.reserve(named))
      if (result.case !== 'reservation') continue
      const { id, expiresAt } = result.value
      const fromMs = Date.now()
      const expiresMs = Number(expiresAt?.seconds) * 1000 + (expiresAt?.nanos ?? 0) / 1e6
      await remaining('holds', 'all')
      spans.push({ fromMs, toMs: Math.min(expiresMs, Date.now()) })
      // A quarter ends with its lease.
      if (round % 4 > 0) await isKnown(until(worker, pod => pod.release({ id })))
    }
  }
  const working = Promise.all(Array.from({ length: 2 * maxConcurrent }, (_, worker) => work(worker)))
  for (let kill = 0; kill < 6; kill++) {
    const taken = spans.length
    await waitFor('holds to be taken', () => spans.length > taken + 2 * maxConcurrent, 30_000)
    await killPod(kill)
  }
  isRunning = false
  await working
  assert.ok(mostAtOnce(spans) <= maxConcurrent, `${mostAtOnce(spans)} holds were out`)
  await waitFor('all leases to end', async () => (await remaining('holds', 'all')) === maxConcurrent)
})

function mostAtOnce(spans: readonly { readonly fromMs: number; readonly toMs: number }[]): number {
  const at = (ms: number) => spans.filter(({ fromMs, toMs }) => fromMs <= ms && ms < toMs).length
  return Math.max(...spans.map(({ fromMs }) => at(fromMs)))
}

test('1,000 reservations and 1,000 holds of four users keep their amounts when their rules change', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const named = ['alice', 'bob', 'carol', 'dave']
  const ofEach = 250
  const limit = 10_000
  for (const [backend, count] of [
    [{ KVSTORE_URL: `127.0.0.1:${redis.port}` }, 2],
    [{ BACKEND_TYPE: 'memory' }, 1],
  ] as const) {
    const whole = [tokens(limit), holds(limit)]
    const pods = await startPods(t, backend, count, whole)
    const { reserve, until, remaining, send } = pods
    /** Waits until so much remains for each user, by each pod. */
    const remains = async (key: string, expected: number | undefined) => {
      for (const user of named) {
        for (let pod = 0; pod < count; pod++) {
          const told = `${expected} ${key} of ${user} by pod ${pod}`
          await waitFor(told, async () => (await remaining(key, user, pod)) === expected)
        }
      }
    }
    const change = async (descriptors: Descriptors, expected: number | undefined) => {
      send(descriptors)
      await remains('tokens', expected)
    }
    const numbers = Array.from({ length: named.length * ofEach }, (_, number) => number)
    const userOf = (number: number) => named[Math.floor(number / 5) % named.length] ?? assert.fail()
    const take = (key: string) =>
      Promise.all(numbers.map(async number => (await reserve(key, userOf(number), 2, 60)) ?? assert.fail()))
    const ids = { tokens: await take('tokens'), holds: await take('holds') }
    await remains('holds', limit - 500)
    /** Commits the reservations and ends the holds of this fifth: 50 of each user. */
    const end = async (fifth: number) => {
      const of = (all: readonly string[]) => all.filter((_, number) => number % 5 === fifth)
      const commit = (id: string, number: number) => until(number, pod => pod.commit({ id, actual: 3n }))
      await Promise.all(of(ids.tokens).map(commit))
      await Promise.all(of(ids.holds).map((id, number) => until(number, pod => pod.release({ id }))))
    }
    await change([tokens(501), holds(501)], 1)
    await end(0)
    // 150 were committed, and 200 reservations of 2 are open: more than the limit.
    await remains('tokens', 0)
    await remains('holds', 501 - 400)
    await change([tokens(20_000), holds(20_000)], 20_000 - 550)
    await end(1)
    await change([tokens(limit, RateLimitAlgorithm.TOKEN_BUCKET), holds(limit)], limit)
    await end(2)
    await change([{ key: 'other', rateLimit: { unit, requestsPerUnit: 1 } }], undefined)
    await end(3)
    await change(whole, limit - 200 * 3 - 50 * 2)
    await remains('holds', limit - 50 * 2)
    const last = ids.tokens.concat(ids.holds).filter((_, number) => number % 5 === 4)
    await Promise.all(last.map(id => until(0, pod => pod.extend({ id, ttl: { nanos: 100_000_000 } }))))
    await remains('tokens', limit - 200 * 3)
    await remains('holds', limit)
  }
})
