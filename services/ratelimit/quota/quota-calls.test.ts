import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import {
  array,
  assert as assertProperty,
  asyncProperty,
  constantFrom,
  integer,
  nat,
  oneof,
  record,
} from 'fast-check'
import type { LimitCheck, LimitOutcome } from '../counters/admission/limit-check.ts'
import { type BucketShares, bucketGrantMs } from '../counters/bucket-shares.ts'
import { CountersError } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { MemoryBucketShares } from '../counters/memory-bucket-shares.ts'
import { openLimiter } from '../limiter/open-limiter.ts'
import { compile } from '../rules/compile.ts'
import type { RateLimitPolicy } from '../rules/model.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { idleAfterMs, PodBuckets, type PodGrant } from './pod-buckets.ts'
import { QuotaBuckets } from './quota-buckets.ts'
import { QuotaCalls } from './quota-calls.ts'

const numRuns = Number(process.env['TRACES'] ?? 30)

// Tests tick by their own time.
mock.timers.enable({ apis: ['setInterval'] })

const limit = 100
const burst = 4 * limit
const quota = { name: 'bucket 3600', tokens: limit * 3600, intervalSeconds: 3600, maxTokens: burst }
/** What a full bucket has of the first share: a quarter of what is spare, since others may come to both tiers. */
const first = 101

const check: LimitCheck = {
  ...{
    key: 'bucket',
    algorithm: 'TokenBucket',
    hits: 1,
    limit,
    burst,
    windowTicks: 1_000,
    ticksPerSecond: 1_000,
  },
  ...{ expirySeconds: 1, shadow: false, countRejected: false, quota },
}

/** Processes that share a limit over a link that can fail, with calls to each and a proxy beside them. */
class World {
  nowMs = 1_000_000
  readonly clock = { nowMs: () => this.nowMs, monotonicMs: () => this.nowMs }
  readonly counters = createMemoryCounters({ clock: this.clock })
  readonly pods: Pod[] = []
  /** The calls that asked the counters. */
  asked: (readonly LimitCheck[])[] = []
  #shares = new MemoryBucketShares(this.clock)
  #started = 0

  constructor(pods = 1) {
    for (let nth = 0; nth < pods; nth += 1) this.pods.push(this.start())
  }

  start(): Pod {
    this.#started += 1
    return new Pod(this, `pod ${this.#started}`)
  }

  link(pod: Pick<Pod, 'isAway' | 'delay'>): BucketShares {
    const pass = async <Answer>(call: () => Answer): Promise<Answer> => {
      if (pod.isAway) throw new CountersError('the link is down')
      return call()
    }
    return {
      renew: async renewal => {
        if (renewal.bucket === pod.delay?.bucket) await pod.delay.end
        return pass(() => this.#shares.renew(renewal))
      },
      move: (...call) => pass(() => this.#shares.move(...call)),
      leave: (...call) => pass(() => this.#shares.leave(...call)),
      read: (...call) => pass(() => this.#shares.read(...call)),
      learningMs: () => this.#shares.learningMs(),
    }
  }

  /** Lets a time pass in which processes do what is due. */
  async pass(ms: number, each = () => {}): Promise<void> {
    const endMs = this.nowMs + ms
    while (this.nowMs < endMs) {
      this.nowMs += 50
      for (const { calls, buckets } of this.pods) {
        calls.tick()
        buckets.tick()
      }
      await settle()
      each()
      await settle()
    }
  }

  /** The shares are lost, as those of a Redis that has lost its data. */
  forgetShares(): void {
    this.#shares = new MemoryBucketShares(this.clock)
  }

  /** Lets the shares be known. */
  async learn(): Promise<void> {
    await this.pass(bucketGrantMs)
  }
}

class Pod {
  isAway = false
  /** Renewals of the bucket take until then. */
  delay: { readonly bucket: string; readonly end: Promise<void> } | undefined
  readonly buckets: PodBuckets
  readonly calls: QuotaCalls
  /** A proxy that reports to the process. */
  proxy: PodGrant = { amount: 0, ttlSeconds: 0 }
  readonly #world: World
  #sequence = 0
  #endsMs = 0

  constructor(world: World, name: string) {
    const { clock } = world
    this.#world = world
    this.buckets = new PodBuckets({
      ...{ shares: world.link(this), pod: name, clock },
      onChange: bucket => {
        this.calls.revise(bucket)
        this.#take(bucket.revise('proxy', world.nowMs))
      },
    })
    this.calls = new QuotaCalls({ pods: this.buckets, clock })
  }

  /** What the proxy may use a second. */
  get usable(): number {
    return this.#world.nowMs < this.#endsMs ? this.proxy.amount / quota.intervalSeconds : 0
  }

  async call(...checks: readonly Partial<LimitCheck>[]): Promise<readonly LimitOutcome[]> {
    const { counters, nowMs } = this.#world
    const all = (checks.length === 0 ? [{}] : checks).map(each => ({ ...check, ...each }))
    return this.calls.admit(all, nowMs, asked => {
      this.#world.asked.push(asked)
      return counters.admit(asked)
    })
  }

  /** Calls until a call is rejected. Resolves with the number of calls that are admitted. */
  async exhaust(): Promise<number> {
    let admitted = 0
    while ((await this.call())[0]?.admitted) admitted += 1
    return admitted
  }

  reportProxy(perSecond: number, tokens = quota.tokens): void {
    this.#sequence += 1
    const report = {
      wanted: perSecond * quota.intervalSeconds,
      held: this.usable * quota.intervalSeconds,
      sequence: this.#sequence,
    }
    this.#take(this.buckets.open(quota.name, tokens).report('proxy', report, this.#world.nowMs))
  }

  #take(grant: PodGrant | undefined): void {
    if (grant === undefined) return
    this.proxy = grant
    this.#endsMs = this.#world.nowMs + grant.ttlSeconds * 1_000
  }
}

/** Lets all promises that can settle do so. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 12; turns += 1) await undefined
}

async function openLearned(pods?: number) {
  const world = new World(pods)
  await world.learn()
  const [pod, other] = world.pods as [Pod, Pod]
  return { world, pod, other }
}

test('the first call waits for its share, and a full bucket has its part of the burst', async () => {
  const { world, pod } = await openLearned()
  const [outcome] = await pod.call()
  assert.deepEqual(outcome, { admitted: true, remaining: first - 1, waitSeconds: 0, shareSize: first })
  assert.equal(await pod.exhaust(), first - 1)
  const [rejected] = await pod.call()
  assert.ok(rejected?.admitted === false && rejected.remaining === 0)
  assert.ok((rejected.waitSeconds ?? 0) > 0 && (rejected.waitSeconds ?? 0) <= 4 / first)
  await world.pass(800)
  assert.equal(await pod.exhaust(), Math.floor((first * 0.8) / 4))
  assert.deepEqual(world.asked, [])
})

test('the first call of several limits waits for all its shares', async () => {
  const { world, pod } = await openLearned()
  const { promise: end, resolve } = Promise.withResolvers<void>()
  pod.delay = { bucket: quota.name, end }
  const call = pod.call({}, { key: 'other', quota: { ...quota, name: 'other 3600' } })
  await settle()
  resolve()
  const outcomes = await call
  assert.deepEqual(
    outcomes.map(({ shareSize }) => shareSize),
    [first, first],
  )
  assert.deepEqual(world.asked, [])
})

test('the first call waits for its share also while the part of a proxy is renewed', async () => {
  const { world, pod } = await openLearned()
  const { promise: end, resolve } = Promise.withResolvers<void>()
  pod.delay = { bucket: quota.name, end }
  pod.reportProxy(1)
  await world.pass(50)
  const call = pod.call()
  await settle()
  resolve()
  assert.ok((await call)[0]?.shareSize)
  assert.deepEqual(world.asked, [])
})

test('calls for which others have left nothing are rejected, and not admitted by the counters', async () => {
  const { world, pod } = await openLearned()
  for (let times = 0; times < 3; times += 1) {
    pod.reportProxy(2 * limit)
    await world.pass(5_000)
  }
  const [one, other] = [world.start(), world.start()]
  world.pods.push(one, other)
  const kept = await one.exhaust()
  assert.ok(kept >= 1 && kept <= burst / 100, `${kept} of what is kept for newcomers`)
  assert.equal(await other.exhaust(), 1)
  assert.deepEqual(world.asked, [])
  await world.pass(5_000, () => void other.call())
  pod.reportProxy(2 * limit)
  let admitted = 0
  await world.pass(5_000, () => {
    void other.call().then(([outcome]) => {
      admitted += Number(outcome?.admitted)
    })
  })
  assert.ok(admitted > 50, `until the others have reported: ${admitted} of 100`)
  assert.deepEqual(world.asked, [])
})

test('calls that have ended do not hold on to a limit that was lowered', async () => {
  const { world, pod } = await openLearned()
  await pod.call()
  await world.pass(1_000)
  for (let times = 0; times < 3; times += 1) {
    pod.reportProxy(limit, quota.tokens / 10)
    await world.pass(5_000)
  }
  assert.ok(pod.usable > 0 && pod.usable <= limit / 10, `${pod.usable}`)
  await pod.call({ limit: limit / 2, quota: { ...quota, tokens: quota.tokens / 2 } })
  await world.pass(5_000)
  assert.equal(pod.buckets.find(quota.name)?.limit, quota.tokens / 2)
})

test('while shares are learned, calls count by themselves', async () => {
  const world = new World()
  const [pod] = world.pods as [Pod]
  assert.equal(await pod.exhaust(), burst)
  assert.equal(world.asked.length, burst + 1)
  await world.learn()
  await world.pass(2_500)
  world.asked = []
  assert.ok((await pod.call())[0]?.shareSize)
  assert.deepEqual(world.asked, [])
})

test('a share is used until it ends, when the counters are asked', async () => {
  const { world, pod } = await openLearned()
  await pod.exhaust()
  pod.isAway = true
  await world.pass(14_000)
  assert.ok((await pod.exhaust()) > 0)
  const members = pod.buckets.open(quota.name, quota.tokens).membersAt(world.nowMs)
  assert.ok((members.get('calls')?.held ?? 0) > 0, 'it stays counted')
  assert.deepEqual(world.asked, [])
  await world.pass(7_000)
  await pod.call()
  assert.equal(world.asked.length, 1)
  pod.isAway = false
  await world.pass(3_000)
  assert.ok((await pod.call())[0]?.shareSize)
})

const hitTable: readonly {
  readonly what: string
  readonly calls: readonly Partial<LimitCheck>[]
  readonly admitted: boolean
  readonly remaining: number
}[] = [
  { what: 'several hits', calls: [{ hits: 61 }], admitted: true, remaining: 39 },
  { what: 'more hits than are left', calls: [{ hits: 61 }, { hits: 40 }], admitted: false, remaining: 39 },
  {
    what: 'more hits than a full bucket has',
    calls: [{ hits: -1 }, { hits: 400 }],
    ...{ admitted: true, remaining: -299 },
  },
  { what: 'the same while the bucket is not full', calls: [{ hits: 400 }], admitted: false, remaining: 100 },
  {
    what: 'more hits than the limit has at once',
    calls: [{ hits: -1 }, { hits: 401 }],
    ...{ admitted: false, remaining: 101 },
  },
  { what: 'no hits', calls: [{ hits: 0 }], admitted: true, remaining: 100 },
  { what: 'no hits without any left', calls: [{ hits: 100 }, { hits: 0 }], admitted: false, remaining: 0 },
  { what: 'hits given back', calls: [{ hits: 61 }, { hits: -20 }], admitted: true, remaining: 59 },
  {
    what: 'too many given back',
    calls: [{ hits: 6 }, { hits: 0 - 2 ** 53 }],
    admitted: true,
    remaining: 101,
  },
  {
    what: 'a report of hits beyond the limit',
    calls: [{ hits: 90 }, { hits: 2 ** 53, countRejected: true }],
    ...{ admitted: false, remaining: -400 },
  },
]

for (const { what, calls, ...expected } of hitTable) {
  test(`a share counts ${what}`, async () => {
    const { pod } = await openLearned()
    let [last] = await pod.call()
    for (const each of calls) [last] = await pod.call(each)
    const { admitted, remaining } = last ?? {}
    assert.deepEqual({ admitted, remaining }, expected)
  })
}

test('calls without hits take no share', async () => {
  const { world, pod } = await openLearned()
  for (const hits of [0, -1]) await pod.call({ hits })
  assert.equal(world.asked.length, 2)
})

test('calls and a proxy have fair parts, which follow demand', async () => {
  const { world, pod, other } = await openLearned(2)
  const wanted = { proxy: 200, calls: 10 }
  let [callsMade, admitted] = [0, 0]
  const run = async (ms: number) => {
    let [used, at] = [0, 0]
    admitted = 0
    await world.pass(ms, () => {
      at += 1
      if (at % 100 === 0) pod.reportProxy(wanted.proxy)
      used += pod.usable / 20
      callsMade += wanted.calls / 20
      for (; callsMade >= 1; callsMade -= 1) {
        void other.call().then(([outcome]) => {
          admitted += Number(outcome?.admitted)
        })
      }
    })
    return { proxy: (used * 1000) / ms, calls: (admitted * 1000) / ms }
  }
  pod.reportProxy(1)
  await run(15_000)
  const before = await run(20_000)
  assert.ok(
    before.calls > 9.5 && before.proxy > 85 && before.proxy + before.calls <= limit,
    `${before.calls}`,
  )
  Object.assign(wanted, { proxy: 10, calls: 200 })
  await run(12_000)
  const after = await run(20_000)
  assert.ok(
    after.proxy >= 9 && after.calls > 85 && after.proxy + after.calls <= limit,
    `${after.proxy} ${after.calls}`,
  )
  Object.assign(wanted, { proxy: 200, calls: 200 })
  await run(12_000)
  const both = await run(20_000)
  assert.ok(Math.abs(both.proxy - both.calls) <= 5, `${both.proxy} and ${both.calls}`)
  assert.deepEqual(world.asked, [])
})

test('calls leave after a minute without one, and at once when the process stops', async () => {
  const { world, pod, other } = await openLearned(2)
  const sizeWhenBusy = async () => {
    await world.pass(12_000, () => {
      for (const each of world.pods) void each.call({ hits: 20 })
    })
    return (await other.call())[0]?.shareSize ?? 0
  }
  const half = await sizeWhenBusy()
  assert.ok(half > 0.48 * burst && half < 0.5 * burst, `${half} of ${burst}`)
  pod.calls.close()
  await pod.buckets.close()
  await sizeWhenBusy()
  assert.equal((await other.call())[0]?.shareSize, Math.floor(0.995 * 0.995 * burst))
  assert.ok(world.asked.every(([each]) => each?.key === check.key))
  await world.pass(59_000)
  assert.equal(other.buckets.open(quota.name, quota.tokens).isUsed, true)
  await world.pass(5_000)
  assert.equal(other.buckets.open(quota.name, quota.tokens).isUsed, false)
})

const plain = { key: 'plain_0', algorithm: 'FixedWindow', limit: 5, burst: 5 } as const
const without = ({ quota: _, ...rest }: LimitCheck, more: Partial<LimitCheck>) => ({ ...rest, ...more })

test('limits with and without a share admit a call together, or count nothing of it', async () => {
  const { world, pod } = await openLearned()
  await pod.call()
  const admit = async (own: Partial<LimitCheck>, other: Partial<LimitCheck>) => {
    const checks = [without(check, { ...plain, ...other }), { ...check, ...own }]
    const outcomes = await pod.calls.admit(checks, world.nowMs, asked => world.counters.admit(asked))
    return outcomes.map(({ admitted, remaining }) => `${admitted} ${remaining}`)
  }
  assert.deepEqual(await admit({}, {}), ['true 4', 'true 99'])
  assert.deepEqual(await admit({}, { hits: 5 }), ['false 4', 'true 98'], 'the first limit rejects')
  assert.deepEqual(await admit({}, { hits: 5, shadow: true }), ['false 4', 'true 98'], 'taken back before')
  assert.deepEqual(await admit({ hits: 99 }, { hits: 2 }), ['true 4', 'false 98'], 'the share rejects')
  assert.deepEqual(await admit({ hits: 99, shadow: true }, { hits: 2 }), ['true 2', 'false 98'])
  assert.deepEqual(await admit({ hits: 99 }, { hits: 1, countRejected: true }), ['true 1', 'false 98'])
  const away = () => Promise.reject(new CountersError('away'))
  const both = [without(check, plain), check]
  await assert.rejects(async () => pod.calls.admit(both, world.nowMs, away), /away/)
  assert.deepEqual(await admit({ hits: 0 }, { hits: 0 }), ['true 1', 'true 98'])
})

test('calls beyond 10,000 buckets, and of long keys, ask the counters', async () => {
  const { world, pod } = await openLearned()
  const call = (name: string) => pod.call({ quota: { ...quota, name } })
  await call('x'.repeat(5_000))
  assert.equal(world.asked.length, 1)
  for (let nth = 0; nth < 10_001; nth += 1) await call(`bucket ${nth}`)
  assert.equal(world.asked.length, 2)
})

const action = record({
  step: oneof(
    ...(
      [
        [40, 'call'],
        [10, 'report'],
        [2, 'away'],
        [4, 'back'],
        [1, 'stop'],
        [1, 'kill'],
        [1, 'forget'],
      ] as const
    ).map(([weight, step]) => ({ weight, arbitrary: constantFrom(step) })),
  ),
  nth: nat(1),
  wanted: nat(2 * limit),
  pauseMs: oneof({ weight: 9, arbitrary: integer({ min: 0, max: 1_000 }) }, integer({ min: 0, max: 20_000 })),
})

/** A process that can reach the others knows its shares after this time. */
const renewedMs = 2_600

/** A token bucket that is owed what has been admitted. It must never owe more than it has when it is full. */
class Oracle {
  #debt = 0
  #atMs = 0

  /** `begun` is what buckets that have begun full since then have brought. */
  admit(hits: number, nowMs: number, begun = 0): void {
    const drained = (limit * (nowMs - this.#atMs)) / 1_000
    this.#debt = Math.max(0, this.#debt - drained - begun) + hits
    this.#atMs = nowMs
  }

  get excess(): number {
    return this.#debt - burst
  }
}

test('calls and proxies together never admit more than the limit and full buckets, whatever fails', async () => {
  let counted = 0
  const holds = asyncProperty(array(action, { minLength: 30, maxLength: 80, size: 'max' }), async all => {
    const world = new World(2)
    const [shared, byCounters] = [new Oracle(), new Oracle()]
    /** When each process has last called. The bucket of one that has not called for a minute begins full again. */
    const calledMs = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
    /** Whether the bucket of each process has had a share, and when each process knows its shares. */
    const hasShare = [false, false]
    const knowsMs = [renewedMs, renewedMs]
    let learnedMs = world.nowMs + bucketGrantMs
    /** What is killed is used on until it ends. */
    const left: Pod[] = []
    const checkShares = async () => {
      let sum = 0
      for (const each of left) sum += each.usable
      for (const each of world.pods) {
        const [outcome] = await each.call({ hits: 0 })
        sum += each.usable + (limit * (outcome?.shareSize ?? 0)) / burst
      }
      assert.ok(sum <= limit + 0.5, `${sum} of ${limit} are shared`)
    }
    const callUntilRejected = async (nth: number) => {
      const pod = world.pods[nth] as Pod
      if (world.nowMs - (calledMs[nth] as number) > idleAfterMs(quota) - 1_000) hasShare[nth] = false
      calledMs[nth] = world.nowMs
      for (;;) {
        const [outcome] = await pod.call()
        const size = outcome?.shareSize
        const oracle = size === undefined ? byCounters : shared
        if (outcome?.admitted) oracle.admit(1, world.nowMs, hasShare[nth] ? 0 : size)
        hasShare[nth] ||= size !== undefined
        assert.ok(oracle.excess <= 2, `${oracle.excess} more than the limit and full buckets`)
        if (size === undefined) {
          counted += 1
          const sinceMs = Math.max(learnedMs + renewedMs, knowsMs[nth] as number)
          assert.ok(world.nowMs < sinceMs, 'the counters decide a call of a process that knows its share')
        }
        if (!outcome?.admitted) break
      }
    }
    for (const { step, nth, wanted, pauseMs } of all) {
      await world.pass(pauseMs, () => {
        for (const each of [...world.pods, ...left]) shared.admit(each.usable / 20, world.nowMs)
      })
      await checkShares()
      const pod = world.pods[nth] as Pod
      const startAnother = () => {
        left.push(pod)
        world.pods[nth] = world.start()
        hasShare[nth] = false
        knowsMs[nth] = world.nowMs
      }
      const run = {
        call: () => callUntilRejected(nth),
        report: () => pod.reportProxy(wanted),
        away() {
          pod.isAway = true
          knowsMs[nth] = Number.POSITIVE_INFINITY
        },
        back() {
          pod.isAway = false
          knowsMs[nth] = world.nowMs + renewedMs
        },
        async stop() {
          pod.calls.close()
          await pod.buckets.close()
          startAnother()
        },
        kill: startAnother,
        forget() {
          world.forgetShares()
          learnedMs = world.nowMs + bucketGrantMs
        },
      }[step]
      await run()
      await settle()
      await checkShares()
    }
  })
  await assertProperty(holds, { numRuns, endOnFailure: true })
  assert.ok(counted > numRuns, `the counters decided ${counted} calls`)
})

test('the answer and the statistics of a call are those of its share', async () => {
  const world = new World()
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const flags = { shadowMode: false, detailedMetric: false, quotaMode: false }
  const policy: RateLimitPolicy = {
    ...{ unit: 'minute', requestsPerUnit: 600, delivery: 'Quota', unlimited: false, name: '', replaces: [] },
  }
  const rule = { ...flags, valueToMetric: false, shareThreshold: false, value: '', descriptors: [] }
  const descriptors = [
    { ...rule, key: 'user', rateLimit: policy },
    { ...rule, key: 'watched', rateLimit: policy, shadowMode: true },
  ]
  const rules = compile([{ name: 'shop', domain: 'shop', descriptors }], {
    mergeDomainConfigs: false,
    attach: limitStats.attach,
  })
  const [pod] = world.pods as [Pod]
  const observed: number[] = []
  const limiter = openLimiter(
    {
      ...{ cacheKeyPrefix: '', expirationJitterMaxSeconds: 0, nearLimitRatio: 0.8, shadowMode: false },
      ...{ quotaMode: false, dynamicMetadata: false, problemDetails: false, backendFailureMode: 'error' },
      ...{ backendFailureLocalShare: 1, localCacheBytes: 1_000, stopIncrementWhenOverLimit: false },
      ...{ responseHeaders: false, limitHeader: '', remainingHeader: '', resetHeader: '' },
      headerForm: 'reference',
    },
    {
      ...{ rules: () => rules, counters: world.counters, stats, limitStats, clock: world.clock },
      ...{ random: () => 0, startCounting: undefined, errors: { succeeded() {}, failed() {} } },
      observation: {
        observer: { decided: (_, __, [status]) => void observed.push(status?.remaining ?? -1) },
      },
      admitShared: (...call) => pod.calls.admit(...call),
    },
  )
  const decide = async (key: string, hits = 1) => {
    const { over, statuses } = await limiter.decide({
      domain: 'shop',
      descriptors: [{ entries: [{ key, value: 'alice' }] }],
      hitsAddend: hits,
    })
    const { remaining, limit: shown } = statuses[0] ?? {}
    return [over, remaining, shown?.requestsPerUnit, shown?.unit, shown?.resetSeconds]
  }
  const left = 60 - ((world.nowMs / 1000) % 60)
  assert.deepEqual(await decide('user'), [false, 599, 600, 'minute', left], 'by the counter while it learns')
  await world.learn()
  await world.pass(2_500)
  assert.deepEqual(await decide('user'), [false, 1, 600, 'minute', 0])
  assert.deepEqual(await decide('user', 3), [true, 1, 600, 'minute', 1])
  assert.deepEqual(await decide('watched'), [false, 2, 600, 'minute', 0])
  assert.deepEqual(await decide('watched', 3), [false, 2, 600, 'minute', 1])
  assert.deepEqual(observed, [599, 1, 1, 2, 2])
  const counted = (key: string) => {
    const { totalHits, withinLimit, nearLimit, overLimit, shadowMode } = limitStats.attach(`shop.${key}`)
    return { totalHits, withinLimit, nearLimit, overLimit, shadowMode }
  }
  const proxies = new QuotaBuckets({
    ...{ rules: () => rules, pods: pod.buckets, clock: world.clock, shadowMode: false },
  })
  const bucket = { domain: 'shop', entries: [{ key: 'user', value: 'alice' }] }
  await proxies.open('calls', () => {}).report([{ bucket, allowed: 1, denied: 0, elapsedMs: 0 }])
  const members = pod.buckets.open('shop_user_alice_ 3600', 36_000).membersAt(world.nowMs)
  assert.deepEqual([...members.keys()], ['calls', 'calls (proxy)'], 'no proxy is taken for the calls')
  const own = { totalHits: 4, withinLimit: 1, nearLimit: 0, overLimit: 3 }
  assert.deepEqual(counted('watched'), { ...own, shadowMode: 3 })
  assert.deepEqual(counted('user'), { ...own, totalHits: 5, withinLimit: 2, shadowMode: 0 })
})
