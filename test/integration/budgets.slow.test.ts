import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { seededRandom } from '../support/api-proxy.ts'
import { callBudgets } from '../support/call-budgets.ts'
import {
  encodeDomain,
  encodeResponse,
  type LimitDomainMessage,
  startLimitFeed,
} from '../support/limit-feed.ts'
import { startProgram } from '../support/program.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { losingNothing, type RedisServer, startRedis, startSteppedRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/**
 * `ROUNDS=1000 node --test test/integration/budgets.slow.test.ts` is the long form. By default each kind of rule meets each
 * fault once. `SEED` repeats the moments of the faults.
 */
const rounds = Number(process.env['ROUNDS'] ?? 20)
const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const budget = 100
const estimate = 7
const admitted = Math.floor(budget / estimate)
const callers = 100

/** How long a caller repeats a call whose outcome it does not know. */
const patienceMs = 30_000

type DescriptorSettings = NonNullable<LimitDomainMessage['descriptors']>[number]

const yearly = (requestsPerUnit: number, algorithm = RateLimitAlgorithm.FIXED_WINDOW) => ({
  unit: RateLimitUnit.YEAR,
  requestsPerUnit,
  algorithm,
})

/** Rules with the same budget. */
const rules: Readonly<Record<'fixed' | 'sliding' | 'bucket' | 'holds' | 'several', DescriptorSettings>> = {
  fixed: { rateLimit: yearly(budget) },
  sliding: { rateLimit: yearly(budget, RateLimitAlgorithm.SLIDING_WINDOW) },
  bucket: { rateLimit: yearly(budget, RateLimitAlgorithm.TOKEN_BUCKET) },
  holds: {
    rateLimit: { algorithm: RateLimitAlgorithm.CONCURRENCY, maxConcurrent: budget, leaseSeconds: 3_600 },
  },
  several: {
    limits: [
      { ...yearly(2 * budget), name: 'wide' },
      { ...yearly(budget, RateLimitAlgorithm.TOKEN_BUCKET), name: 'bucket' },
      { ...yearly(budget), name: 'narrow' },
    ],
  },
}
type Rule = keyof typeof rules

/** Starts two pods on a Redis; by default on one that loses nothing when it is killed. */
async function start(t: TestContext, given?: RedisServer) {
  const redis = given ?? (await startRedis(losingNothing))
  t.after(() => redis.stop())
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  const descriptors = Object.entries(rules).map(([key, rule]) => ({ key, ...rule }))
  feed.send(encodeResponse('1', [encodeDomain({ name: 'shop', domain: 'shop', descriptors })]))
  const env = {
    ...{ BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `127.0.0.1:${redis.port}` },
    ...feed.settings,
  }
  const startPod = async () => {
    const service = await startRateLimit(t, env)
    await service.serves()
    return { service, ...callBudgets(t, service.grpcPort), ...callRateLimit(t, service.grpcPort) }
  }
  const pods = await Promise.all([startPod(), startPod()])
  const podOf = (number: number) => pods[number % pods.length] ?? assert.fail()

  /** Repeats a call at one pod after the other until its outcome is known. */
  function untilAnswered<T>(first: number, call: (pod: ReturnType<typeof podOf>) => Promise<T>): Promise<T> {
    let number = first
    return waitFor('an answer', () => call(podOf(number++)), patienceMs)
  }

  return {
    untilAnswered,
    portOf: (number: number) => podOf(number).service.grpcPort,
    async restartPod(number: number) {
      await podOf(number).service.program.end('SIGKILL')
      pods[number % pods.length] = await startPod()
    },
    /** Kills all pods, and starts them again when none is left. */
    async restartAllPods(whileDown = () => {}) {
      await Promise.all(pods.map(({ service }) => service.program.end('SIGKILL')))
      whileDown()
      pods.splice(0, pods.length, ...(await Promise.all(pods.map(startPod))))
    },
    async restartRedis() {
      await redis.kill('SIGKILL')
      await redis.restart()
    },
  }
}

type Opened = Awaited<ReturnType<typeof start>>

interface User {
  readonly rule: Rule
  readonly name: string
}

const alice: User = { rule: 'fixed', name: 'alice' }
const descriptorOf = ({ rule, name }: User) => ({ entries: [{ key: rule, value: name }] })

/** Returns the id of the reservation; undefined if it was rejected. */
async function reserve({ untilAnswered }: Opened, user: User, caller: number, seconds: bigint) {
  const { result } = await untilAnswered(caller, pod =>
    pod.reserve({
      domain: 'shop',
      descriptor: descriptorOf(user),
      amount: BigInt(estimate),
      ttl: { seconds },
      requestId: `caller ${caller}`,
    }),
  )
  return result.case === 'reservation' ? result.value.id : undefined
}

/** Returns how many of these hits ShouldRateLimit would admit now, without counting one. */
async function remainingOf({ untilAnswered }: Opened, user: User): Promise<number> {
  const descriptors = [{ ...descriptorOf(user), hitsAddend: 0n }]
  const { statuses } = await untilAnswered(0, pod => pod.shouldRateLimit({ domain: 'shop', descriptors }))
  return statuses[0]?.code === Code.OK ? statuses[0].limitRemaining : 0
}

const faults = {
  none: async () => {},
  'Redis killed': ({ restartRedis }: Opened) => restartRedis(),
  'a pod killed': ({ restartPod }: Opened, round: number) => restartPod(round),
  'both killed': async ({ restartRedis, restartPod }: Opened, round: number) => {
    await Promise.all([restartRedis(), restartPod(round)])
  },
} as const

/** Counts answers, and resolves when a random share of them is there, and a few milliseconds have passed. */
function watch(random: () => number, count: number) {
  const share = Math.floor(random() * count)
  const { promise: moment, resolve } = Promise.withResolvers<void>()
  let answers = 0
  const check = () => {
    if (answers === share) setTimeout(resolve, random() * 5)
  }
  check()
  return {
    moment,
    told: `after ${share} answers`,
    counted: async <T>(answer: Promise<T>) => {
      const value = await answer
      answers += 1
      check()
      return value
    },
  }
}

test(`${callers} callers get exactly the budget, whatever is killed meanwhile`, async t => {
  if (!requireProgram(t, 'redis-server')) return
  t.diagnostic(`SEED=${seed}`)
  const random = seededRandom(seed)
  const opened = await start(t)
  for (let round = 0; round < rounds; round++) {
    const rule = (Object.keys(rules) as Rule[])[round % 5] ?? assert.fail()
    const user = { rule, name: `user ${round}` }
    const [name, fault] = Object.entries(faults)[round % 4] ?? assert.fail()
    const asked = watch(random, callers)
    const numbers = Array.from({ length: callers }, (_, caller) => caller)
    const asking = Promise.all(numbers.map(caller => asked.counted(reserve(opened, user, caller, 60n))))
    await asked.moment
    await fault(opened, round)
    const told = `SEED=${seed}, round ${round}, ${rule}, ${name} ${asked.told}`
    const ids = (await asking).flatMap(id => (id === undefined ? [] : [id]))
    assert.equal(ids.length, admitted, told)
    assert.equal(new Set(ids).size, admitted, told)
    assert.equal(await remainingOf(opened, user), budget - admitted * estimate, told)
    const committed = watch(random, admitted)
    const committing = Promise.all(
      ids.map((id, index) =>
        committed.counted(opened.untilAnswered(index, pod => pod.commit({ id, actual: BigInt(index % 9) }))),
      ),
    )
    await committed.moment
    if (round % 8 >= 4) await fault(opened, round + 1)
    await committing
    // A hold ends with its commit.
    const used = rule === 'holds' ? 0 : ids.reduce((sum, _, index) => sum + (index % 9), 0)
    assert.equal(await remainingOf(opened, user), budget - used, `${told}, and ${committed.told} of Commit`)
  }
})

test('what a killed pod and its callers have reserved returns to all, also without another reservation', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const opened = await start(t)
  const ids = await Promise.all(Array.from({ length: 20 }, (_, caller) => reserve(opened, alice, caller, 2n)))
  assert.equal(ids.filter(id => id !== undefined).length, admitted)
  await opened.restartPod(0)
  await opened.restartPod(1)
  await waitFor('the amounts to return', async () => (await remainingOf(opened, alice)) === budget, 20_000)
})

/** A program that reserves the whole budget, and renews what it has before its time ends, until it is killed. */
const renewingClient = (port: number, ttlSeconds: number) => `
  import { callBudgets } from './test/support/call-budgets.ts'
  const { reserve, extend } = callBudgets({ after() {} }, ${port})
  const ttl = { seconds: ${ttlSeconds}n }
  const reserveAll = key => Array.from({ length: ${budget / 10} }, async () => {
    const descriptor = { entries: [{ key, value: 'alice' }] }
    const { result } = await reserve({ domain: 'shop', descriptor, amount: 10n, ttl })
    return result.value.id
  })
  const ids = await Promise.all(['fixed', 'holds'].flatMap(reserveAll))
  for (;;) {
    const renewed = await Promise.all(ids.map(id => extend({ id, ttl })))
    const ends = renewed.map(({ expiresAt: { seconds, nanos } }) => Number(seconds) * 1000 + nanos / 1e6)
    console.log('until ' + Math.min(...ends))
    await new Promise(resolve => setTimeout(resolve, 200))
  }
`

test('what a killed client had returns when its time is over, and not before', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const opened = await start(t)
  const holder: User = { rule: 'holds', name: 'alice' }
  const ttlSeconds = 5
  const program = renewingClient(opened.portOf(0), ttlSeconds)
  const client = startProgram(process.execPath, ['--input-type=module', '--eval', program], { cwd: root })
  t.after(() => client.end('SIGKILL'))
  const ends = () => [...client.output().matchAll(/until ([\d.]+)/g)].map(([, end]) => Number(end))
  await waitFor('the client to reserve', () => ends().length > 0, 30_000)
  const [firstEnd = assert.fail()] = ends()
  await waitFor('the client to renew its reservations', () => Date.now() > firstEnd + 1_000)
  for (const user of [alice, holder]) assert.equal(await remainingOf(opened, user), 0, user.rule)
  await client.end('SIGKILL')
  const lastEnd = ends().at(-1) ?? assert.fail()
  const early: string[] = []
  for (const user of [alice, holder]) {
    const returned = async () => {
      const remaining = await remainingOf(opened, user)
      if (remaining > 0 && Date.now() < lastEnd) early.push(`${remaining} of ${user.rule}`)
      return remaining === budget
    }
    await waitFor(`all of ${user.rule} to return`, returned, ttlSeconds * 1000 + 10_000)
  }
  assert.deepEqual(early, [])
})

test('when all pods were killed, reservations are committed once, and the others return after their time', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const opened = await start(t)
  const { untilAnswered, restartAllPods } = opened
  const ttlSeconds = 10
  const startMs = performance.now()
  const reserved = await Promise.all(
    Array.from({ length: admitted }, (_, caller) =>
      reserve(opened, alice, caller, caller % 2 === 0 ? 60n : BigInt(ttlSeconds)),
    ),
  )
  const committed = reserved.filter((_, caller) => caller % 2 === 0)
  await restartAllPods()
  const commitAll = () =>
    Promise.all(
      committed.flatMap((id = assert.fail('it was rejected'), number) =>
        [0, 1].map(pod => untilAnswered(pod, each => each.commit({ id, actual: BigInt(number) }))),
      ),
    )
  const used = committed.reduce((sum, _, number) => sum + number, 0)
  const reservedYet = (admitted - committed.length) * estimate
  await commitAll()
  assert.equal(await remainingOf(opened, alice), budget - used - reservedYet)
  const tookMs = performance.now() - startMs
  assert.ok(tookMs < ttlSeconds * 1000, `the reservations were to live as long as the restart: ${tookMs} ms`)
  await restartAllPods()
  await commitAll()
  await waitFor(
    'the rest to return',
    async () => (await remainingOf(opened, alice)) === budget - used,
    30_000,
  )
  for (let caller = 0; caller < admitted; caller++) {
    assert.equal(await reserve(opened, alice, caller, 60n), reserved[caller], 'a repetition')
  }
  assert.equal(await remainingOf(opened, alice), budget - used)
})

test('what was reserved returns when no pod has run for an hour', async t => {
  if (!(requireProgram(t, 'redis-server') && requireProgram(t, 'cc'))) return
  const redis = await startSteppedRedis()
  const opened = await start(t, redis)
  const ids = await Promise.all(
    Array.from({ length: admitted }, (_, caller) => reserve(opened, alice, caller, 60n)),
  )
  const [id = assert.fail('it was rejected')] = ids
  await opened.untilAnswered(0, pod => pod.commit({ id, actual: 5n }))
  await opened.restartAllPods(() => redis.setClock(3_600))
  await waitFor('the rest to return', async () => (await remainingOf(opened, alice)) === budget - 5, 30_000)
})
