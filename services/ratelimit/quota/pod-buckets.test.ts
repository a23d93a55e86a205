import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  array,
  assert as assertProperty,
  asyncProperty,
  boolean,
  constant,
  constantFrom,
  integer,
  nat,
  oneof,
  record,
} from 'fast-check'
import { type BucketShares, bucketGrantMs } from '../counters/bucket-shares.ts'
import { CountersError } from '../counters/counters.ts'
import { MemoryBucketShares } from '../counters/memory-bucket-shares.ts'
import { type PodBucket, PodBuckets, type PodGrant } from './pod-buckets.ts'

const numRuns = Number(process.env['TRACES'] ?? 300)
const limit = 1_000

type Fault = 'none' | 'no request' | 'no answer' | 'late answer'

/** Processes with proxies, which share one limit over a link with faults. */
class World {
  nowMs = 1_000_000
  limit = limit
  fault: Fault = 'none'
  readonly late: (() => void)[] = []
  readonly clock = { nowMs: () => this.nowMs, monotonicMs: () => this.nowMs }
  readonly pods: Pod[] = []
  readonly proxies: TestedProxy[]
  #shares = new MemoryBucketShares(this.clock)
  #pods = 0

  constructor(pods: number, proxies: number) {
    for (let nth = 0; nth < pods; nth += 1) this.pods.push(this.openPod())
    this.proxies = Array.from(
      { length: proxies },
      (_, nth) => new TestedProxy(this, `proxy ${nth}`, nth % pods),
    )
  }

  openPod(): Pod {
    this.#pods += 1
    return new Pod(this, `pod ${this.#pods}`)
  }

  loseData(): void {
    this.#shares = new MemoryBucketShares(this.clock)
  }

  /** The shares as a process sees them. */
  link(): BucketShares {
    const pass = async <Answer>(call: () => Answer): Promise<Answer> => {
      const { fault } = this
      if (fault === 'no request') throw new CountersError('the link is down')
      const answer = call()
      if (fault === 'no answer') throw new CountersError('the answer is lost')
      if (fault === 'late answer') await new Promise<void>(resolve => this.late.push(resolve))
      return answer
    }
    return {
      renew: renewal => pass(() => this.#shares.renew(renewal)),
      move: (...call) => pass(() => this.#shares.move(...call)),
      leave: (...call) => pass(() => this.#shares.leave(...call)),
      read: (...call) => pass(() => this.#shares.read(...call)),
      learningMs: () => this.#shares.learningMs(),
    }
  }

  async pass(ms: number): Promise<void> {
    this.nowMs += ms
    await settle()
  }

  get used(): number {
    return this.proxies.reduce((sum, proxy) => sum + proxy.usable, 0)
  }

  /** Lets all run for a time. */
  async run(ms: number): Promise<void> {
    const end = this.nowMs + ms
    while (this.nowMs < end) {
      await this.pass(50)
      for (const pod of this.pods) pod.buckets.tick()
      await settle()
      for (const [nth, proxy] of this.proxies.entries()) {
        if (this.nowMs % 5_000 === (nth * 50) % 5_000) proxy.report()
      }
    }
  }
}

class Pod {
  readonly buckets: PodBuckets
  readonly #world: World

  constructor(world: World, name: string) {
    this.#world = world
    this.buckets = new PodBuckets({
      shares: world.link(),
      pod: name,
      clock: world.clock,
      onChange: bucket => this.#revise(bucket),
    })
  }

  get bucket(): PodBucket {
    return this.buckets.open('bucket', this.#world.limit)
  }

  #revise(bucket: PodBucket): void {
    for (const proxy of this.#world.proxies) {
      if (proxy.pod === this) proxy.take(bucket.revise(proxy.name, this.#world.nowMs))
    }
  }
}

class TestedProxy {
  readonly name: string
  wanted = 0
  readonly #world: World
  #sequence = 0
  #pod: number
  #lastPod: Pod | undefined
  #grant = { amount: 0, expiresAtMs: 0 }

  constructor(world: World, name: string, pod: number) {
    this.#world = world
    this.name = name
    this.#pod = pod
  }

  get usable(): number {
    return this.#world.nowMs < this.#grant.expiresAtMs ? this.#grant.amount : 0
  }

  get pod(): Pod | undefined {
    return this.#lastPod
  }

  take(grant: PodGrant | undefined): void {
    if (grant === undefined) return
    this.#grant = { amount: grant.amount, expiresAtMs: this.#world.nowMs + grant.ttlSeconds * 1_000 }
  }

  connectTo(pod: number): void {
    this.#pod = pod
  }

  report(): void {
    const { nowMs, pods } = this.#world
    const pod = pods[this.#pod % pods.length] as Pod
    const isReturning = this.#lastPod !== pod
    // What is held from another process is not known to this one.
    const known = pod.bucket.membersAt(nowMs).get(this.name)
    const held = isReturning ? Math.max(known?.held ?? 0, known?.granted ?? 0) : this.usable
    this.#lastPod = pod
    this.#sequence += 1
    const report = { wanted: this.wanted, held, sequence: this.#sequence }
    this.take(pod.bucket.report(this.name, report, nowMs, isReturning ? this.usable : undefined))
  }
}

/** Lets all promises that can settle do so. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 12; turns += 1) await undefined
}

const steps = {
  report: 30,
  tick: 30,
  want: 10,
  fault: 6,
  answer: 10,
  connect: 2,
  kill: 1,
  stop: 1,
  loseData: 1,
} as const

const action = record({
  step: oneof(
    ...Object.entries(steps).map(([step, weight]) => ({
      weight,
      arbitrary: constant(step as keyof typeof steps),
    })),
  ),
  nth: nat(5),
  other: nat(2),
  wanted: oneof(constantFrom(0, 2 * limit), nat(limit)),
  fault: oneof(
    { weight: 3, arbitrary: constant<Fault>('none') },
    { weight: 1, arbitrary: constantFrom<Fault>('no request', 'no answer', 'late answer') },
  ),
  isSoon: boolean(),
  pauseMs: oneof({ weight: 9, arbitrary: integer({ min: 0, max: 1_000 }) }, integer({ min: 0, max: 20_000 })),
})

test('the proxies of all processes never use more than the limit, whatever fails', async () => {
  const actions = array(action, { minLength: 40, maxLength: 150, size: 'max' })
  const holds = asyncProperty(actions, async all => {
    const world = new World(3, 6)
    world.nowMs += bucketGrantMs
    for (const { step, nth, other, wanted, fault, isSoon, pauseMs } of all) {
      await world.pass(isSoon ? 50 : pauseMs)
      const proxy = world.proxies[nth] as TestedProxy
      const pod = world.pods[other] as Pod
      const run = {
        report: () => proxy.report(),
        tick() {
          for (const each of world.pods) each.buckets.tick()
        },
        want: () => Object.assign(proxy, { wanted }),
        fault: () => Object.assign(world, { fault }),
        answer() {
          for (const answer of world.late.splice(0)) answer()
        },
        connect: () => proxy.connectTo(other),
        kill: () => Object.assign(world.pods, { [other]: world.openPod() }),
        stop() {
          void pod.buckets.close()
          world.pods[other] = world.openPod()
        },
        loseData: () => world.loseData(),
      }[step]
      run()
      await settle()
      assert.ok(world.used <= limit, `${world.used} of ${limit} may be used after ${step}`)
    }
  })
  await assertProperty(holds, { numRuns, endOnFailure: true })
})

/** Opens processes whose proxies want this much, and lets them come to rest. */
async function openWorld(pods: number, wanted: readonly number[]): Promise<World> {
  const world = new World(pods, wanted.length)
  for (const [nth, proxy] of world.proxies.entries()) proxy.wanted = wanted[nth] ?? 0
  await world.run(bucketGrantMs + 20_000)
  return world
}

const grantsOf = ({ proxies }: World) => proxies.map(({ usable }) => usable)

test('proxies get fair shares through whichever process they report to, and nearly all is used', async () => {
  const world = await openWorld(3, [5_000, 5_000, 5_000, 5_000, 100])
  const [first = 0, ...others] = grantsOf(world)
  for (const each of others.slice(0, 3)) assert.ok(Math.abs(each - first) <= 15, `${each} and ${first}`)
  assert.ok(others.at(-1) === 100, `${others.at(-1)} of 100`)
  assert.ok(world.used >= 0.97 * limit && world.used <= limit, `${world.used} are used`)
})

test('shares follow demand that moves to other proxies after two reports', async () => {
  const world = await openWorld(2, [800, 800, 50, 50])
  for (const [nth, proxy] of world.proxies.entries()) proxy.wanted = nth < 2 ? 50 : 800
  await world.run(11_000)
  const grants = grantsOf(world)
  for (const each of grants.slice(2)) assert.ok(each >= 420, `${grants}`)
  assert.ok(world.used >= 0.97 * limit, `${world.used} are used`)
})

test('a process revises some thousand shares of a tick, and all of them after some ticks', async () => {
  let nowMs = 0
  let revised = 0
  const pods = new PodBuckets({
    shares: {
      renew: ({ capacity }) => capacity,
      move: () => 0,
      leave: () => undefined,
      read: () => [],
      learningMs: () => 0,
    },
    pod: 'pod',
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    onChange: ({ size }) => {
      revised += size
    },
  })
  for (let nth = 0; nth < 60; nth += 1) {
    const bucket = pods.open(`bucket ${nth}`, limit)
    const report = { wanted: limit, held: 0, sequence: 1 }
    for (let proxy = 0; proxy < 100; proxy += 1) bucket.report(`proxy ${proxy}`, report, nowMs)
  }
  const revisedOfTicks: number[] = []
  for (; nowMs < 400; nowMs += 50) {
    const before = revised
    pods.tick()
    await settle()
    revisedOfTicks.push(revised - before)
  }
  assert.ok(Math.max(...revisedOfTicks) <= 2_000, `${revisedOfTicks}`)
  assert.equal(revised, 6_000, `${revisedOfTicks}`)
})

test('a proxy goes on in another process when its process stops', async () => {
  const world = await openWorld(2, [5_000, 5_000])
  const before = grantsOf(world)
  void (world.pods[1] as Pod).buckets.close()
  world.pods.splice(1)
  await world.run(6_000)
  const after = grantsOf(world)
  for (const [nth, each] of after.entries()) {
    assert.ok(each >= 0.9 * (before[nth] ?? 0), `${after} instead of ${before}`)
  }
})

test('what a proxy uses is not given to others if the process that adopts it stops too', async () => {
  const world = await openWorld(2, [5_000, 0])
  const stop = async () => {
    void (world.pods[0] as Pod).buckets.close()
    world.pods[0] = world.openPod()
    await settle()
  }
  await stop()
  world.fault = 'late answer'
  await world.run(6_000)
  await stop()
  world.fault = 'none'
  for (const answer of world.late.splice(0)) answer()
  for (const proxy of world.proxies) proxy.wanted = 5_000
  for (let ms = 0; ms < 15_000; ms += 50) {
    await world.run(50)
    assert.ok(world.used <= limit, `${grantsOf(world)} of ${limit} after ${ms} ms`)
  }
})

test('a process that adopts a proxy late counts its share until that expires', async () => {
  const world = new World(2, 0)
  world.nowMs += bucketGrantMs
  const [left, right] = world.pods as [Pod, Pod]
  let sequence = 0
  const report = ({ bucket }: Pod, proxy: string) => {
    sequence += 1
    return bucket.report(proxy, { wanted: 2 * limit, held: 0, sequence }, world.nowMs, 0)
  }
  const renew = async (pod: Pod) => {
    await world.pass(500)
    pod.buckets.tick()
    await settle()
  }
  report(left, 'moving')
  await world.pass(13_000)
  report(right, 'moving')
  await renew(right)
  const used = right.bucket.revise('moving', world.nowMs)?.amount ?? 0
  assert.ok(used > 0)
  await right.buckets.close()
  await renew(left)
  await world.pass(5_000)
  report(left, 'other')
  await renew(left)
  left.bucket.revise('other', world.nowMs)
  const others = left.bucket.membersAt(world.nowMs).get('other')?.granted ?? 0
  assert.ok(used + others <= limit, `${used} and ${others}`)
})

test('what a process has granted ends with its part, also if it adopts a proxy then', async () => {
  const world = new World(2, 0)
  world.nowMs += bucketGrantMs
  const [left, right] = world.pods as [Pod, Pod]
  let sequence = 0
  const report = ({ bucket }: Pod, proxy: string, wanted: number, held: number, used?: number) => {
    sequence += 1
    return bucket.report(proxy, { wanted, held, sequence }, world.nowMs, used)
  }
  const renew = async (pod: Pod) => {
    await world.pass(500)
    pod.buckets.tick()
    await settle()
  }
  report(left, 'first', limit, 0)
  await renew(left)
  const amountOf = ({ bucket }: Pod, proxy: string) => bucket.revise(proxy, world.nowMs)?.amount ?? 0
  const had = amountOf(left, 'first')
  assert.ok(had > 0.9 * limit)
  world.fault = 'no request'
  for (let seconds = 0; seconds < bucketGrantMs / 1_000; seconds += 5) {
    await world.pass(5_000)
    report(left, 'first', limit, had)
    await renew(left)
  }
  world.fault = 'none'
  report(right, 'moving', 300, 0)
  report(right, 'other', 700, 0)
  await renew(right)
  const used = amountOf(right, 'moving') + amountOf(right, 'other')
  await right.buckets.close()
  report(left, 'moving', 300, 0, 300)
  await renew(left)
  const amount = amountOf(left, 'first')
  assert.ok(used > 0.9 * limit && used + amount <= limit, `${used} and ${amount}`)
})

test('a proxy of a process that was killed has a share again when its old one has expired', async () => {
  const world = await openWorld(2, [5_000, 5_000])
  world.pods.splice(1)
  await world.run(bucketGrantMs + 10_000)
  assert.ok(world.used >= 0.97 * limit, `${grantsOf(world)}`)
})

test('while the counters are away, grants end with the part, and return with it', async () => {
  const world = await openWorld(1, [5_000, 5_000])
  world.fault = 'no request'
  await world.run(10_000)
  assert.ok(world.used > 0)
  await world.run(bucketGrantMs - 10_000)
  assert.equal(world.used, 0)
  world.fault = 'none'
  await world.run(10_000)
  assert.ok(world.used >= 0.97 * limit, `${grantsOf(world)}`)
})

test('a part that no proxy uses returns to the others', async () => {
  const world = await openWorld(2, [5_000, 5_000])
  world.proxies.splice(1)
  await world.run(bucketGrantMs + 5_000)
  assert.ok(world.used >= 0.97 * limit, `${grantsOf(world)}`)
})

test('tells of the first bucket, and counts renewals', async () => {
  const shares = new CountedShares()
  const world = { nowMs: 1_000_000 }
  const clock = { nowMs: () => world.nowMs, monotonicMs: () => world.nowMs }
  let firsts = 0
  const onFirst = () => {
    firsts += 1
  }
  const buckets = new PodBuckets({ shares, pod: 'pod', clock, onChange: () => {}, onFirst })
  assert.equal(firsts, 0)
  for (const name of ['a', 'b']) {
    const report = { wanted: 1, held: 0, sequence: 1 }
    buckets.open(name, 100).report('proxy', report, clock.monotonicMs())
  }
  buckets.tick()
  await new Promise(setImmediate)
  assert.deepEqual([firsts, buckets.renewals.value, buckets.failedRenewals.value], [1, 2, 0])
  assert.equal(buckets.find('a')?.assignedAt(clock.monotonicMs()), 0)
})

/** Counts the calls for each bucket, and answers with the capacity. */
class CountedShares implements BucketShares {
  readonly calls: string[] = []
  answers = true

  renew = ({ bucket, capacity }: { bucket: string; capacity: number }) => this.#call(bucket, capacity)
  move = (bucket: string) => this.#call(bucket, 0)
  leave = (bucket: string) => this.#call(bucket, undefined)
  read = (bucket: string) => this.#call(bucket, [])
  learningMs = () => 0

  async #call<Answer>(bucket: string, answer: Answer): Promise<Answer> {
    this.calls.push(bucket)
    if (!this.answers) await new Promise(() => {})
    return answer
  }
}

function openMany(count: number) {
  const shares = new CountedShares()
  const world = { nowMs: 1_000_000 }
  const clock = { nowMs: () => world.nowMs, monotonicMs: () => world.nowMs }
  const buckets = new PodBuckets({ shares, pod: 'pod', clock, onChange: () => {} })
  const report = (name: string, wanted: number) =>
    buckets.open(name, limit).report('proxy', { wanted, held: 0, sequence: world.nowMs }, world.nowMs)
  for (let nth = 0; nth < count; nth += 1) report(`bucket ${nth}`, 1)
  return { shares, buckets, world, report }
}

test('buckets that are due, more than can be renewed in time, do not delay those that lack something', async () => {
  const { shares, buckets, world, report } = openMany(30_000)
  const tick = async (times: number) => {
    shares.calls.length = 0
    for (let nth = 0; nth < times; nth += 1) {
      world.nowMs += 50
      buckets.tick()
      await settle()
    }
    return new Set(shares.calls)
  }
  assert.equal((await tick(75)).size, 30_000)
  report('new', 1)
  report('bucket 29999', limit)
  const soon = await tick(2)
  assert.ok(soon.has('new'))
  assert.ok((await tick(10)).has('bucket 29999'), 'it was renewed less than half a second before')
  for (let nth = 0; nth < 30_000; nth += 1) report(`bucket ${nth}`, 2 * limit)
  report('new', 1)
  assert.ok((await tick(150)).has('new'), 'those that lack something do not delay the others')
})

test('a process that stops does not wait longer for the counters than it may', async () => {
  const { shares, buckets, world } = openMany(1_000)
  world.nowMs += 50
  buckets.tick()
  await settle()
  shares.answers = false
  shares.calls.length = 0
  await buckets.close(20)
  assert.ok(shares.calls.length > 0 && shares.calls.length <= 200, `${shares.calls.length} calls`)
})
