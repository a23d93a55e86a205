import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bucketGrantMs } from '../counters/bucket-shares.ts'
import { MemoryBucketShares } from '../counters/memory-bucket-shares.ts'
import { compile, type RuleSet } from '../rules/compile.ts'
import type { RateLimitPolicy, RateLimitRule } from '../rules/model.ts'
import { PodBuckets } from './pod-buckets.ts'
import { type QuotaAssignment, type QuotaBucket, QuotaBuckets } from './quota-buckets.ts'

const flags = {
  ...{ shadowMode: false, detailedMetric: false, quotaMode: false },
  ...{ valueToMetric: false, shareThreshold: false },
}

function rule(
  key: string,
  limit: Partial<RateLimitPolicy>,
  more: Partial<RateLimitRule> = {},
): RateLimitRule {
  const policy = { unit: 'second', requestsPerUnit: 100, unlimited: false, name: '', replaces: [] }
  return { ...flags, key, value: '', rateLimit: { ...policy, ...limit }, descriptors: [], ...more }
}

const compileRules = (...descriptors: readonly RateLimitRule[]): RuleSet<unknown> =>
  compile([{ name: 'shop', domain: 'shop', descriptors }], {
    mergeDomainConfigs: false,
    attach: () => undefined,
  })

/** What 100 requests a second are in tokens. */
const capacity = 360_000
/** What one proxy of one process has of it: both divisions keep a two-hundredth. */
const most = capacity * 0.995 * 0.995

const maxBuckets = 100

/** A service that has learned, and its time. */
class World {
  nowMs = 0
  rules: RuleSet<unknown>
  readonly #clock = { nowMs: () => this.nowMs, monotonicMs: () => this.nowMs }
  readonly #shares = new MemoryBucketShares(this.#clock)
  #pods: PodBuckets
  #buckets: QuotaBuckets

  constructor(...descriptors: readonly RateLimitRule[]) {
    this.rules = compileRules(...descriptors)
    const { pods, buckets } = this.#start('first')
    this.#pods = pods
    this.#buckets = buckets
    this.nowMs = bucketGrantMs
  }

  #start(pod: string) {
    const onChange: ConstructorParameters<typeof PodBuckets>[0]['onChange'] = each => buckets.revise(each)
    const pods = new PodBuckets({ shares: this.#shares, pod, clock: this.#clock, onChange, maxBuckets })
    const rules = () => this.rules
    const buckets = new QuotaBuckets({ rules, pods, clock: this.#clock, shadowMode: false })
    return { pods, buckets }
  }

  /** Stops or kills the process, and starts another one. */
  async replace({ isKilled = false } = {}): Promise<void> {
    if (!isKilled) await this.#pods.close()
    const { pods, buckets } = this.#start('second')
    this.#pods = pods
    this.#buckets = buckets
  }

  open(identity: string): Proxy {
    const pushed: QuotaAssignment[] = []
    const member = this.#buckets.open(identity, assignments => void pushed.push(...assignments))
    return { ...member, pushed, world: this }
  }

  /** Lets the process do what is due after its shortest time between renewals. */
  async renew(): Promise<void> {
    this.nowMs += 500
    this.#pods.tick()
    for (let turns = 0; turns < 12; turns += 1) await undefined
  }
}

interface Proxy extends ReturnType<QuotaBuckets['open']> {
  readonly pushed: QuotaAssignment[]
  readonly world: World
}

const bucketOf = (key: string, domain = 'shop'): QuotaBucket => ({ domain, entries: [{ key, value: 'a' }] })

/** Reports so many requests of the last five seconds, and resolves with what applies after the next renewal. */
async function report(proxy: Proxy, bucket: QuotaBucket, requests: number, elapsedMs = 5000) {
  const pushedBefore = proxy.pushed.length
  const assignments = await proxy.report([{ bucket, allowed: requests, denied: 0, elapsedMs }])
  await proxy.world.renew()
  return [...assignments, ...proxy.pushed.slice(pushedBefore)].at(-1)
}

const tokens = (assignment: QuotaAssignment | undefined) =>
  assignment?.action === 'limit' ? assignment.tokensPerFill : -1

test('an assignment is a token bucket of an hour, which holds the tokens of one second or of the burst', async () => {
  const world = new World(
    rule('user', { delivery: 'Quota' }),
    rule('bucket', { delivery: 'Quota', algorithm: 'TokenBucket', burst: 7 }),
  )
  const member = world.open('one')
  const user = bucketOf('user')
  const alone = await report(member, user, 10_000)
  assert.deepEqual(alone, {
    ...{ bucket: user, action: 'limit', tokensPerFill: most, maxTokens: 99 },
    ...{ fillIntervalSeconds: 3600, ttlSeconds: 15 },
  })
  const burst = await report(member, bucketOf('bucket'), 10_000)
  assert.equal(burst?.action === 'limit' && burst.maxTokens, 6)
})

test('a limit of millions of requests a second has tokens of a minute or of a second', async () => {
  const world = new World(
    rule('user', { delivery: 'Quota', requestsPerUnit: 50_000_000 }),
    rule('all', { delivery: 'Quota', requestsPerUnit: 4_000_000_000 }),
  )
  const member = world.open('one')
  for (const [key, seconds] of [
    ['user', 60],
    ['all', 1],
  ] as const) {
    const assignment = await report(member, bucketOf(key), 1)
    assert.equal(assignment?.action === 'limit' && assignment.fillIntervalSeconds, seconds)
    assert.ok(tokens(assignment) > 0 && tokens(assignment) <= 0xffffffff)
  }
})

test('a bucket without a shared limit gets no answer, and is abandoned when it has no requests', async () => {
  const world = new World(rule('called', {}), rule('user', { delivery: 'Quota' }))
  const member = world.open('one')
  for (const bucket of [bucketOf('called'), bucketOf('unknown'), bucketOf('user', 'other')]) {
    assert.equal(await report(member, bucket, 1, 0), undefined)
    assert.equal(await report(member, bucket, 5), undefined)
    assert.deepEqual(await report(member, bucket, 0), { bucket, action: 'abandon' })
  }
})

test('shadow mode allows everything', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }, { shadowMode: true }))
  const bucket = bucketOf('user')
  assert.deepEqual(await report(world.open('one'), bucket, 1e9), { bucket, action: 'allow', ttlSeconds: 15 })
})

test('a bucket without requests for a minute is abandoned, and its share is free', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const [idle, busy] = [world.open('idle'), world.open('busy')]
  const bucket = bucketOf('user')
  await report(idle, bucket, 500)
  for (const endMs = world.nowMs + 60_000; world.nowMs < endMs; world.nowMs += 4000) {
    assert.equal((await report(idle, bucket, 0))?.action, 'limit')
    await report(busy, bucketOf('user'), 10_000)
  }
  assert.deepEqual(await report(idle, bucket, 0), { bucket, action: 'abandon' })
})

test('a report that the next one supersedes counts as use, and only new buckets are assigned', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const proxy = world.open('proxy')
  const [known, other] = [bucketOf('user'), { domain: 'shop', entries: [{ key: 'user', value: 'b' }] }]
  const usage = { bucket: known, allowed: 500, denied: 0, elapsedMs: 5000 }
  await report(proxy, known, 500)
  world.nowMs += 50_000
  assert.deepEqual(await proxy.report([usage], true), [])
  world.nowMs += 20_000
  await world.renew()
  assert.equal((await report(proxy, known, 0))?.action, 'limit', 'it was used 20 s ago')
  const [assignment] = await proxy.report([usage, { ...usage, bucket: other }], true)
  await world.renew()
  assert.deepEqual((assignment ?? proxy.pushed.at(-1))?.bucket.entries, other.entries)
})

test('a bucket whose burst takes longer than a minute to fill is kept until it is full', async () => {
  const burst = 100 * 90
  const world = new World(rule('user', { delivery: 'Quota', algorithm: 'TokenBucket', burst }))
  const [proxy, bucket] = [world.open('idle'), bucketOf('user')]
  await report(proxy, bucket, 500)
  for (const endMs = world.nowMs + 90_000; world.nowMs < endMs; world.nowMs += 5_000) {
    assert.equal((await report(proxy, bucket, 0))?.action, 'limit', `${endMs - world.nowMs} ms before`)
  }
  assert.deepEqual(await report(proxy, bucket, 0), { bucket, action: 'abandon' })
})

test('a report confirms only what was sent a second before, as long as the way to the proxy may take', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const [hot, other] = [world.open('hot'), world.open('other')]
  const [hotBucket, otherBucket] = [bucketOf('user'), bucketOf('user')]
  const before = tokens(await report(hot, hotBucket, 10_000))
  world.nowMs += 5_000
  await report(other, otherBucket, 10_000)
  for (let turns = 0; turns < 3 && hot.pushed.length === 0; turns += 1) await world.renew()
  const lower = tokens(hot.pushed.at(-1))
  assert.ok(lower > 0 && lower < 0.6 * before, `${lower} instead of ${before}`)
  // The lower share arrives after a second, and so may the answer to this report.
  world.nowMs += 600
  await report(hot, hotBucket, 10_000)
  await world.renew()
  const early = tokens(await report(other, otherBucket, 10_000))
  assert.ok(before + early <= capacity, `${before} and ${early}`)
  world.nowMs += 5_000
  await report(hot, hotBucket, 10_000)
  assert.ok(tokens(await report(other, otherBucket, 10_000)) > 0.4 * capacity)
})

test('streams that are opened again with other buckets open no more of them than there is room for', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const reportNew = async (nth: number) => {
    const proxy = world.open(`proxy ${nth}`)
    const bucket = { domain: 'shop', entries: [{ key: 'user', value: `${nth}` }] }
    const [assignment] = await proxy.report([{ bucket, allowed: 1, denied: 0, elapsedMs: 0 }])
    await world.renew()
    proxy.close()
    return assignment ?? proxy.pushed.at(-1)
  }
  const last = () => reportNew(maxBuckets)
  for (let nth = 0; nth < maxBuckets; nth += 1) {
    world.nowMs -= 500
    assert.notEqual(await reportNew(nth), undefined, `${nth}`)
  }
  assert.equal(await last(), undefined)
  world.nowMs += 20_000
  await world.renew()
  assert.notEqual(await last(), undefined)
})

test('a limit that is changed or removed applies with the next report', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const member = world.open('one')
  const bucket = bucketOf('user')
  assert.equal(tokens(await report(member, bucket, 10_000)), most)
  world.nowMs += 5000
  world.rules = compileRules(rule('user', { delivery: 'Quota', requestsPerUnit: 50 }))
  assert.equal(tokens(await report(member, bucket, 10_000)), Math.ceil(most / 2))
  world.nowMs += 5000
  world.rules = compileRules(rule('other', { delivery: 'Quota' }))
  assert.deepEqual(await report(member, bucket, 10_000), { bucket, action: 'abandon' })
})

test('a proxy that comes back continues with its share; another one at the same time is another member', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const first = world.open('edge')
  const before = tokens(await report(first, bucketOf('user'), 10_000))
  first.close()
  world.nowMs += 5000
  const again = world.open('edge')
  assert.equal(tokens(await report(again, bucketOf('user'), 10_000)), before)
  const twin = world.open('edge')
  const newcomer = tokens(await report(twin, bucketOf('user'), 10_000))
  assert.ok(newcomer >= 0 && newcomer <= capacity - before, `${newcomer} beside ${before}`)
})

test('a member that reports every 10.2 s, as gRFC A77 lets it, keeps its share, and another one gets what it returns', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const [hot, other] = [world.open('hot'), world.open('other')]
  const [hotBucket, otherBucket] = [bucketOf('user'), bucketOf('user')]
  await report(hot, hotBucket, 1, 0)
  await report(other, otherBucket, 1, 0)
  for (let round = 0; round < 8; round++) {
    world.nowMs += 9200
    const granted = tokens(await report(hot, hotBucket, round < 4 ? 20_000 : 20, 10_200))
    const ofOther = tokens(await report(other, otherBucket, 20_000, 10_200))
    assert.ok(granted > 0 && granted + ofOther <= capacity, `${granted} and ${ofOther} in round ${round}`)
    if (round === 3) assert.ok(granted >= capacity * 0.45, `${granted}`)
    if (round === 7) assert.ok(ofOther >= capacity * 0.9, `${ofOther}`)
  }
})

test('what a proxy returns is pushed to the others', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const [hot, other] = [world.open('hot'), world.open('other')]
  const [hotBucket, otherBucket] = [bucketOf('user'), bucketOf('user')]
  let sum = 0
  for (let round = 0; round < 6; round++) {
    world.nowMs += 5000
    const granted = [
      await report(hot, hotBucket, round < 3 ? 10_000 : 10),
      await report(other, otherBucket, 10_000),
    ]
    sum = granted.map(tokens).reduce((total, one) => total + one, 0)
  }
  assert.ok(other.pushed.length > 0)
  assert.ok(sum <= capacity && sum >= capacity * 0.98, `${sum} of ${capacity}`)
})

test('what a proxy has from a process that has stopped counts until it ends, if the next one tells it nothing', async () => {
  const world = new World(rule('user', { delivery: 'Quota', requestsPerUnit: 1_000 }))
  const all = 10 * capacity
  const has = { busy: 0, idle: 0 }
  const names = ['busy', 'idle'] as const
  const reportBoth = async (proxies: readonly Proxy[], requests: typeof has) => {
    for (const [nth, name] of names.entries()) {
      const told = tokens(await report(proxies[nth] as Proxy, buckets[nth] as QuotaBucket, requests[name]))
      if (told >= 0) has[name] = told
    }
    assert.ok(has.busy + has.idle <= all, `${has.busy} and ${has.idle}`)
  }
  const before = names.map(name => world.open(name))
  let buckets = names.map(() => bucketOf('user'))
  for (let round = 0; round < 3; round += 1) {
    world.nowMs += 4_000
    await reportBoth(before, { busy: 100_000, idle: 100_000 })
  }
  assert.ok(has.idle > all / 3)
  for (const proxy of before) proxy.close()
  await world.replace()
  const again = names.map(name => world.open(name))
  buckets = names.map(() => bucketOf('user'))
  // So little is wanted that the process does not divide its part again for it.
  for (let round = 0; round < 3; round += 1) {
    await reportBoth(again, { busy: 100_000, idle: Math.min(round, 1) })
    world.nowMs += 3_000
  }
  world.nowMs += 5_000
  has.idle = 0
  for (let round = 0; round < 3; round += 1) {
    await reportBoth(again, { busy: 100_000, idle: 1 })
    world.nowMs += 3_000
  }
  assert.ok(has.busy > all * 0.9, `${has.busy}`)
})

test('a proxy for which nothing is left is told so again before that ends: it would use the whole limit', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const [one, two, three] = [world.open('one'), world.open('two'), world.open('three')]
  assert.ok(tokens(await report(one, bucketOf('user'), 10_000)) > 0)
  const bucket = bucketOf('user')
  assert.equal(tokens(await report(two, bucket, 0, 0)), 0)
  await report(three, bucketOf('user'), 10_000, 0)
  const told: number[] = []
  for (let count = 0; count < 3; count += 1) {
    world.nowMs += 4_500
    told.push(tokens(await report(two, bucket, 50)))
  }
  assert.deepEqual(told, [-1, 0, -1])
})

test('while the service learns, a bucket has no assignment', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  world.nowMs = 0
  const [proxy, bucket] = [world.open('one'), bucketOf('user')]
  for (; world.nowMs < bucketGrantMs; world.nowMs += 4500) {
    assert.equal(await report(proxy, bucket, 10_000), undefined)
  }
  assert.equal(tokens(await report(proxy, bucket, 10_000)), most)
})

test('a proxy goes on with its share in another process, and a new one does not get it', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const before = tokens(await report(world.open('edge'), bucketOf('user'), 10_000))
  await world.replace()
  const newcomer = tokens(await report(world.open('other'), bucketOf('user'), 1, 0))
  assert.ok(newcomer <= capacity - before, `${newcomer} beside ${before}`)
  const edge = world.open('edge')
  const bucket = bucketOf('user')
  await report(edge, bucket, 10_000)
  await world.renew()
  const after = tokens(edge.pushed.at(-1))
  assert.ok(after >= before * 0.9, `${after} instead of ${before}`)
})

test('a proxy that came back before the end of its stream was known goes on with its share in another process', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  world.open('edge')
  const before = tokens(await report(world.open('edge'), bucketOf('user'), 10_000))
  await world.replace()
  const [edge, bucket] = [world.open('edge'), bucketOf('user')]
  await report(edge, bucket, 10_000)
  await world.renew()
  const after = tokens(edge.pushed.at(-1))
  assert.ok(after >= before * 0.9, `${after} instead of ${before}`)
})

test('a proxy of a process that was killed goes on with its share until its second report to another', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const before = tokens(await report(world.open('edge'), bucketOf('user'), 10_000))
  await world.replace({ isKilled: true })
  const [edge, bucket] = [world.open('edge'), bucketOf('user')]
  const requests = (before / 3600) * 5
  assert.equal(await report(edge, bucket, requests), undefined)
  for (let ms = 0; ms < 3000; ms += 500) await world.renew()
  assert.deepEqual(edge.pushed, [], 'the two-hundredth that is free would replace its share')
  world.nowMs += 1500
  const after = tokens(await report(edge, bucket, requests))
  assert.ok(after > 0 && after <= capacity - before, `${after}`)
})

test('a proxy that used more than a share could be does not go on with it in another process', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  await report(world.open('edge'), bucketOf('user'), 10_000)
  await world.replace({ isKilled: true })
  const [unlimited, bucket] = [world.open('unlimited'), bucketOf('user')]
  const free = tokens(await report(unlimited, bucket, 100 * 5))
  assert.ok(free > 0 && free < capacity / 10, `${free}`)
})

test('a demand that varies by less than a fiftieth is the same', async () => {
  const world = new World(rule('user', { delivery: 'Quota' }))
  const [proxy, bucket] = [world.open('one'), bucketOf('user')]
  const grantOf = async (requests: number) => tokens(await report(proxy, bucket, requests))
  const steady = await grantOf(200)
  for (const requests of [197, 203, 200]) assert.equal(await grantOf(requests), steady)
  assert.notEqual(await grantOf(100), steady)
})
