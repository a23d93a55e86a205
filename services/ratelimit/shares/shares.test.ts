import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  array,
  assert as assertProperty,
  boolean,
  constant,
  constantFrom,
  double,
  integer,
  oneof,
  property,
  record,
  tuple,
} from 'fast-check'
import { type ShareOptions, type ShareReport, Shares } from './shares.ts'

const numRuns = Number(process.env['TRACES'] ?? 5_000)
const ttlMs = 15_000

/** A holder of grants, with a network that delays, loses, repeats and reorders its reports and answers. */
class Holder {
  readonly id: string
  wanted = 0
  weight = 1
  grant = { amount: 0, expiresAtMs: 0 }
  #sequence = 0
  readonly reports: { readonly report: ShareReport; readonly sentAtMs: number }[] = []
  readonly answers: { readonly amount: number; readonly sequence: number; readonly sentAtMs: number }[] = []
  /** Grants that the allocator has sent unasked, in their order. */
  readonly pushed: { readonly amount: number; readonly expiresAtMs: number }[] = []

  constructor(id: string) {
    this.id = id
  }

  usableAt(nowMs: number): number {
    return nowMs < this.grant.expiresAtMs ? this.grant.amount : 0
  }

  /** What it has, or gets when a grant arrives that is under way. */
  heldAt(nowMs: number): number {
    const grants = [this.grant, ...this.pushed].filter(({ expiresAtMs }) => nowMs < expiresAtMs)
    return Math.max(0, ...grants.map(({ amount }) => amount))
  }

  /** Whether no answer is under way that may still count. */
  get isIdle(): boolean {
    return this.answers.every(({ sequence }) => sequence < this.#sequence) && this.reports.length === 0
  }

  send(nowMs: number): void {
    this.#sequence += 1
    const { wanted, weight } = this
    const report = { wanted, weight, held: this.heldAt(nowMs), sequence: this.#sequence }
    this.reports.push({ report, sentAtMs: nowMs })
  }

  /** @param isRepeated whether the report stays under way */
  deliverReport(shares: Shares, nth: number, isRepeated: boolean, nowMs: number): void {
    const at = nth % Math.max(1, this.reports.length)
    const sent = isRepeated ? this.reports[at] : this.reports.splice(at, 1)[0]
    if (sent === undefined) return
    const amount = shares.report(this.id, sent.report, nowMs, ttlMs)
    this.answers.push({ amount, sequence: sent.report.sequence, sentAtMs: sent.sentAtMs })
  }

  deliverAnswer(nth: number): void {
    const [answer] = this.answers.splice(nth % Math.max(1, this.answers.length), 1)
    if (answer?.sequence !== this.#sequence) return
    this.pushed.splice(0)
    this.grant = { amount: answer.amount, expiresAtMs: answer.sentAtMs + ttlMs }
  }

  /** Sends a report, and gets its answer at once. */
  report(shares: Shares, nowMs: number): number {
    this.send(nowMs)
    this.deliverReport(shares, this.reports.length - 1, false, nowMs)
    this.deliverAnswer(this.answers.length - 1)
    return this.grant.amount
  }

  push(shares: Shares, nowMs: number): void {
    const amount = shares.revise(this.id, nowMs, ttlMs)
    if (amount !== undefined) this.pushed.push({ amount, expiresAtMs: nowMs + ttlMs })
  }

  deliverPushed(): void {
    this.grant = this.pushed.shift() ?? this.grant
  }

  /** Stops, and lets another holder that has nothing go on with the grant. */
  moveTo(other: Holder, shares: Shares, nowMs: number): void {
    if (other === this || !other.isIdle || other.pushed.length > 0 || other.usableAt(nowMs) > 0) return
    const { expiresAtMs } = this.grant
    const held = this.heldAt(nowMs)
    // The answer is the sum of all moves since the last report of the other.
    const amount = Math.min(held, shares.move(this.id, other.id, held, nowMs))
    other.grant = { amount, expiresAtMs }
    this.#stop()
  }

  leave(shares: Shares): void {
    this.#stop()
    shares.leave(this.id)
  }

  #stop(): void {
    this.grant = { amount: 0, expiresAtMs: 0 }
    this.pushed.splice(0)
    this.#sequence += 1
  }
}

const open = (count: number) => Array.from({ length: count }, (_, index) => new Holder(`m${index}`))

const usable = (holders: readonly Holder[], nowMs: number) =>
  holders.reduce((sum, holder) => sum + holder.usableAt(nowMs), 0)

const capacities = oneof(integer({ min: 0, max: 30 }), integer({ min: 100, max: 4_000_000_000 }))

const steps = {
  send: 8,
  deliverReport: 12,
  deliverAnswer: 8,
  /** Sends a report, and delivers it and its answer. */
  exchange: 20,
  lose: 3,
  push: 15,
  deliverPushed: 10,
  want: 15,
  leave: 1,
  move: 4,
  resize: 2,
  restart: 1,
} as const

const action = record({
  step: oneof(
    ...Object.entries(steps).map(([name, weight]) => ({
      weight,
      arbitrary: constant(name as keyof typeof steps),
    })),
  ),
  holder: integer({ min: 0, max: 3 }),
  nth: integer({ min: 0, max: 3 }),
  isRepeated: boolean(),
  /** Of the first capacity. */
  part: oneof(constantFrom(0, 1), double({ min: 0, max: 2, noNaN: true })),
  pauseMs: oneof({ weight: 6, arbitrary: integer({ min: 0, max: 2_000 }) }, integer({ min: 0, max: 20_000 })),
})

test('what the holders may use never exceeds the capacity, whatever happens to reports and answers', () => {
  const actions = array(action, { minLength: 30, maxLength: 100, size: 'max' })
  const holds = property(capacities, actions, (firstCapacity, all) => {
    const holders = open(4)
    let nowMs = 1_000_000
    let capacity = firstCapacity
    let learnUntilMs = 0
    let shares = new Shares(capacity)
    /** The capacity, or what is outstanding since it was larger. */
    let peak = capacity
    for (const { step, holder: nthHolder, nth, isRepeated, part, pauseMs } of all) {
      nowMs += pauseMs
      const holder = holders[nthHolder] as Holder
      const number = Math.floor(part * firstCapacity)
      const run = {
        send: () => holder.send(nowMs),
        deliverReport: () => holder.deliverReport(shares, nth, isRepeated, nowMs),
        deliverAnswer: () => holder.deliverAnswer(nth),
        exchange: () => holder.report(shares, nowMs),
        lose: () => (isRepeated ? holder.reports : holder.answers).splice(0),
        push: () => holder.isIdle && holder.push(shares, nowMs),
        deliverPushed: () => holder.deliverPushed(),
        want: () => Object.assign(holder, { wanted: number, weight: 1 + nth }),
        leave: () => holder.leave(shares),
        move: () => holder.moveTo(holders[nth] as Holder, shares, nowMs),
        resize() {
          capacity = number
          shares.capacity = capacity
        },
        restart() {
          // A report that is under way ends with its connection.
          for (const { reports } of holders) reports.splice(0)
          learnUntilMs = nowMs + ttlMs
          shares = new Shares(capacity, { learnUntilMs })
        },
      }[step]
      run()
      const remaining = nowMs < learnUntilMs ? peak : shares.outstandingAt(nowMs)
      peak = Math.max(capacity, Math.min(peak, remaining))
      const sum = usable(holders, nowMs)
      assert.ok(sum <= peak, `${sum} of ${peak} may be used after ${step}`)
    }
  })
  assertProperty(holds, { numRuns })
})

const demand = tuple(
  oneof(integer({ min: 0, max: 400 }), integer({ min: 0, max: 5_000_000 })),
  integer({ min: 1, max: 3 }),
)
const demands = array(demand, { minLength: 1, maxLength: 12, size: 'max' })

/** Lets each holder report as often, in this order, and corrects all others then if `isRevised`. */
function runRounds(
  shares: Shares,
  order: readonly Holder[],
  rounds: number,
  nowMs: number,
  isRevised = true,
) {
  for (let round = 0; round < rounds; round++) {
    for (const [nth, holder] of order.entries()) {
      const time = nowMs + round * 5_000 + nth
      holder.report(shares, time)
      if (!isRevised) continue
      for (const other of order) {
        other.push(shares, time)
        other.deliverPushed()
      }
    }
  }
  return nowMs + rounds * 5_000
}

function setDemands(holders: readonly Holder[], all: readonly (readonly [number, number])[]): void {
  for (const [index, holder] of holders.entries()) {
    const [wanted, weight] = all[index % all.length] ?? [0, 1]
    Object.assign(holder, { wanted, weight })
  }
}

const capacity = oneof(integer({ min: 100, max: 2_000 }), integer({ min: 100, max: 10_000_000 }))

test('all have their targets when each has reported twice, whatever the demand and capacity were', () => {
  const holds = property(capacity, capacity, demands, demands, (first, second, before, after) => {
    const holders = open(Math.max(before.length, after.length))
    const shares = new Shares(first)
    setDemands(holders, before)
    const nowMs = runRounds(shares, holders, 3, 0)
    shares.capacity = second
    setDemands(holders, after)
    const thenMs = runRounds(shares, holders.toReversed(), 2, nowMs)
    for (const { id, grant } of holders) {
      const { target = 0 } = shares.membersAt(thenMs).get(id) ?? {}
      const isNear = Math.abs(grant.amount - target) <= Math.max(1, target * 0.01)
      assert.ok(isNear, `${id} has ${grant.amount}, and not ${target}`)
    }
    assert.ok(usable(holders, thenMs) <= second)
    const wanted = holders.reduce((sum, holder) => sum + holder.wanted, 0)
    const unused = Math.min(second, wanted) - usable(holders, thenMs)
    assert.ok(unused <= second * 0.02, `${unused} of ${second} are unused`)
  })
  assertProperty(holds, { numRuns })
})

test('without corrections between reports, all have their targets after four reports', () => {
  const holds = property(capacity, demands, demands, (of, before, after) => {
    const holders = open(Math.max(before.length, after.length))
    const shares = new Shares(of)
    setDemands(holders, before)
    const nowMs = runRounds(shares, holders, 4, 0, false)
    setDemands(holders, after)
    const thenMs = runRounds(shares, holders.toReversed(), 4, nowMs, false)
    for (const { id, grant } of holders) {
      assert.equal(grant.amount, shares.membersAt(thenMs).get(id)?.target, id)
    }
  })
  assertProperty(holds, { numRuns: numRuns / 5 })
})

/** Opens an allocator to which holders with these demands have reported. */
function openShares(of: number, wanted: readonly number[], options: ShareOptions = {}) {
  const shares = new Shares(of, options)
  const holders = open(wanted.length)
  setDemands(
    holders,
    wanted.map(each => [each, 1] as const),
  )
  const nowMs = runRounds(shares, holders, 3, 0)
  return { shares, holders, nowMs, grants: holders.map(({ grant }) => grant.amount) }
}

test('what nobody wants is divided too, and a newcomer finds a share at once', () => {
  const { shares, grants, nowMs } = openShares(1_000, [100, 100])
  assert.deepEqual(grants, [365, 365])
  const newcomer = new Holder('new')
  newcomer.wanted = 200
  assert.equal(newcomer.report(shares, nowMs), 1_000 - 2 * 365)
})

test('a two-hundredth is kept for newcomers when the demand exceeds the capacity', () => {
  const { shares, grants, nowMs } = openShares(1_000, [5_000, 5_000])
  assert.deepEqual(grants, [498, 497])
  const newcomer = new Holder('new')
  newcomer.wanted = 5_000
  assert.equal(newcomer.report(shares, nowMs), 5)
})

test('a member that stops reporting counts until its grant expires', () => {
  const { shares, holders, nowMs } = openShares(1_000, [5_000, 5_000])
  const [staying, silent] = holders as [Holder, Holder]
  const end = silent.grant.expiresAtMs
  assert.equal(staying.report(shares, end - 1), 497)
  assert.equal(staying.report(shares, end), 995)
  assert.ok(end > nowMs)
})

test('a member that leaves makes room at once', () => {
  const { shares, holders, nowMs } = openShares(1_000, [5_000, 5_000])
  const [staying, leaving] = holders as [Holder, Holder]
  leaving.leave(shares)
  assert.equal(staying.report(shares, nowMs), 995)
})

test('an allocator that learns confirms what is held, and raises it when all earlier grants have expired', () => {
  const shares = new Shares(1_000, { learnUntilMs: ttlMs })
  const holder = new Holder('a')
  holder.wanted = 5_000
  holder.grant = { amount: 300, expiresAtMs: 10_000 }
  const newcomer = new Holder('b')
  newcomer.wanted = 5_000
  assert.equal(newcomer.report(shares, 0), 0)
  assert.equal(holder.report(shares, 5_000), 300)
  assert.equal(holder.report(shares, ttlMs - 1), 300)
  assert.equal(newcomer.report(shares, ttlMs), 497)
})

test('a member cannot confirm more than it was granted', () => {
  const { shares, nowMs } = openShares(1_000, [5_000, 5_000])
  for (const sequence of [1, 2]) {
    assert.equal(shares.report('new', { wanted: 5_000, held: 800, sequence }, nowMs, ttlMs), 5)
  }
  assert.ok(shares.outstandingAt(nowMs) > 1_000, 'it counts')
})

test('a late report changes nothing', () => {
  const shares = new Shares(1_000)
  assert.equal(shares.report('a', { wanted: 500, held: 0, sequence: 2 }, 0, ttlMs), 748)
  assert.equal(shares.report('a', { wanted: 0, held: 0, sequence: 1 }, 5_000, ttlMs), 748)
  assert.equal(shares.outstandingAt(ttlMs), 0)
})

test('grants follow the capacity', () => {
  const { shares, holders, nowMs } = openShares(1_000, [5_000, 5_000])
  for (const [capacity, each] of [
    [200, [100, 99]],
    [2_000, [995, 995]],
  ] as const) {
    shares.capacity = capacity
    runRounds(shares, holders, 2, nowMs)
    const grants = holders.map(({ grant }) => grant.amount)
    assert.deepEqual(grants, each)
  }
})

test('a floor is granted even to a member that has not wanted anything yet', () => {
  const { shares, nowMs } = openShares(1_000, [5_000, 5_000])
  assert.equal(shares.report('new', { wanted: 0, held: 0, floor: 5, sequence: 1 }, nowMs, ttlMs), 5)
})

test('members beyond the maximum are granted nothing, and not remembered', () => {
  const { shares, nowMs } = openShares(1_000, [10, 10], { maxMembers: 2 })
  assert.equal(shares.report('new', { wanted: 10, held: 0, sequence: 1 }, nowMs, ttlMs), 0)
  assert.equal(shares.membersAt(nowMs).size, 2)
})
