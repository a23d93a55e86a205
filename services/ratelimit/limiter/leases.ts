import type { Clock } from '@tollway/chassis/clock.ts'
import { type LimitCheck, type LimitOutcome, leaseMs } from '../counters/admission/limit-check.ts'
import { KeyHash } from '../counters/batching/touched-keys.ts'
import { type Counters, type Hit, maxCount, toFixedWindowCheck } from '../counters/counters.ts'
import { largestLease, leaseSize } from '../shares/lease-size.ts'

interface LeasesOptions {
  readonly counters: Required<Pick<Counters, 'add' | 'admit'>>
  /** Whether the counters count a call only where it exceeds a limit, which they decide for all its keys together. */
  readonly stopWhenOver: boolean
  readonly clock: Clock
  /**
   * Called before a lease is taken while there is none. Starts to listen for counters that an operator changes, and
   * returns whether this process is listening already: leases from before would have to be dropped, and their hits
   * would be lost.
   */
  readonly ensureListening: () => boolean
  /** Called with keys to which a call has given hits back, or this process what it had left of a full limit. */
  readonly onReturned: (keys: readonly string[]) => void
}

/** At most this many leases are held; further calls ask the counters. */
const maxLeases = 10_000
/** At most this many calls wait for leases; further calls ask the counters. */
const maxWaiting = 20_000
/**
 * One of so many calls of cold keys is counted on average, in a sequence without a pattern: to hash a key takes longer
 * than all else that leases do for its call.
 */
const meanCallsPerCount = 4
/**
 * A key of which so many calls were counted in one period gets a lease: one with 200 calls a second within a second
 * or so. At fewer calls, a lease saves little. Of 10,000 keys with 25 calls a second each, hardly any gets a lease by
 * accident. While there is any lease, every call is looked up, which takes 5 % of the time of a cold key's call.
 */
const hotCounts = 8
/** A key whose leases have fewer hits loses its lease: a script costs as much as a few additions. */
const leastUseful = 5
/** A power of two. Of several keys with one place, only one with most of their calls is counted. */
const places = 4_096
/** A lease ends earlier here than in the counters, which count from the time at which they granted it. */
const usableMs = leaseMs * 0.9
/** How long a rejection is believed without asking again. Others may have returned hits since. */
const maxShortMs = leaseMs
/** Also the length of a period in which the calls of a key are counted. */
const sweepMs = 100
/** After a failure, a lease that still has hits is not refilled for this long. */
const pauseAfterFailureMs = 100
/** A rate is measured over at least this time. */
const minMeasuredMs = 10

/**
 * Takes hits of limits ahead of their calls, and decides calls of hot keys from them. The counters count what
 * is leased like any other hit, so together all processes never admit more than a limit. The functions of one
 * call run in one step of the event loop.
 *
 * A key is cold at first: its calls ask the counters as without leases. While a lease is taken, the calls of
 * its key wait, and are decided from what it brings, in their order. What a lease has left after `leaseMs` is
 * returned; so are all leases when the process stops. The hits of a killed process stay counted.
 */
export class Leases {
  readonly #options: LeasesOptions
  /** The leases of one limit each, by its key. */
  readonly #single = new Map<string, Lease>()
  /** The leases of several limits that admit calls together, by a text that has all their keys. */
  readonly #joint = new Map<string, Lease>()
  readonly #byKey = new Map<string, KeyLeases>()
  /** Takes and returns that are under way. */
  readonly #running = new Set<Promise<void>>()
  readonly #hash = new KeyHash()
  readonly takes = { value: 0 }
  readonly failedTakes = { value: 0 }
  readonly returns = { value: 0 }
  /**
   * Two numbers for each place: the hash of a key; and the number of its last period, times 256, plus its counted calls
   * in that period.
   */
  #seen: Int32Array | undefined
  /** The calls of cold keys until one is counted. */
  #uncounted = 0
  #random = 1
  #timer: NodeJS.Timeout | undefined
  /** The number of sweeps: a cold key costs no reading of the time. */
  #period = 0
  #waiting = 0
  #isClosed = false

  constructor(options: LeasesOptions) {
    this.#options = options
  }

  /**
   * Has the contract of `Counters.add`. Returns the values at once if they come from leases. A rejected hit that
   * is decided from a lease is not counted, although its value is as if it was.
   */
  add(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]> {
    const [hit] = batch
    if (hit === undefined || batch.length > 1) return this.#addSeveral(batch)
    const value = hit.leased ? this.#addOne(hit) : undefined
    if (value === undefined) return hit.hits < 0 ? this.#ask(batch) : this.#options.counters.add(batch)
    return typeof value === 'number' ? [value] : value.then(toList)
  }

  /** Has the contract of `Counters.admit`. Returns the outcomes at once if they come from a lease. */
  admit(checks: readonly LimitCheck[]): readonly LimitOutcome[] | Promise<readonly LimitOutcome[]> {
    const { counters, clock } = this.#options
    if (!areLeasable(checks)) {
      const answer = counters.admit(checks)
      return checks[0]?.leased ? this.#announceAfter(checks, answer) : answer
    }
    const { leases, id } = this.#placeOf(checks)
    const found = leases.get(id)
    const nowMs = clock.monotonicMs()
    const isLook = checks.some(({ hits }) => hits === 0)
    const lease = found?.serves(checks, nowMs)
      ? found
      : this.#replace(id, found, isLook) && this.#open(leases, id, checks, nowMs)
    if (!lease) return counters.admit(checks)
    if (isLook) return lease.look(checks, nowMs) ?? counters.admit(checks)
    const outcomes = lease.decide(checks, nowMs)
    if (outcomes === undefined) {
      this.#endIfUseless(lease)
      return this.#canWaitFor(lease) ? this.#wait(lease, checks, nowMs) : counters.admit(checks)
    }
    this.#refill(lease, nowMs)
    return outcomes
  }

  /** Forgets that the limit with this key had nothing left, because hits were given back to it. */
  forget(key: string): void {
    for (const lease of this.#byKey.get(key)?.leases ?? []) lease.forget()
  }

  /**
   * Drops what is leased of the limit with this key, because an operator changed it. It is not returned: after
   * a reset it is no longer counted.
   */
  revoke(key: string): void {
    for (const lease of this.#byKey.get(key)?.leases ?? []) lease.revoke()
  }

  revokeAll(): void {
    for (const lease of this.#all()) lease.revoke()
  }

  /** Returns the number of leases, and of the hits that they have left. */
  count(): { readonly leases: number; readonly hits: number } {
    let hits = 0
    const leases = this.#all()
    for (const { parts } of leases) for (const { left } of parts) hits += left
    return { leases: leases.length, hits }
  }

  /** Returns everything. From then on, all calls ask the counters. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const lease of this.#all()) this.#end(lease)
    clearInterval(this.#timer)
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Returns what leases have left that nobody has refilled. */
  sweep(): void {
    this.#period += 1
    const nowMs = this.#options.clock.monotonicMs()
    for (const lease of this.#all()) if (lease.isOver(nowMs)) this.#end(lease)
  }

  /** Adds what does not come from leases in one call of the counters. */
  #addSeveral(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]> {
    const { counters, stopWhenOver } = this.#options
    if (!batch.some(isLeased)) return counters.add(batch)
    if (stopWhenOver) return this.#ask(batch)
    const values = batch.map(hit => (hit.leased ? this.#addOne(hit) : undefined))
    if (values.every(isNumber)) return values
    const asked = batch.filter((_, index) => values[index] === undefined)
    if (asked.length === batch.length) return this.#ask(batch)
    return this.#join(values, asked.length === 0 ? [] : this.#ask(asked))
  }

  /** Fills the places of `undefined` with the answers, in their order. */
  async #join(
    values: readonly (number | Promise<number> | undefined)[],
    answers: readonly number[] | Promise<readonly number[]>,
  ): Promise<readonly number[]> {
    const [leased, asked] = await Promise.all([Promise.all(values), answers])
    let next = 0
    return leased.map(value => value ?? asked[next++] ?? maxCount)
  }

  #ask(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]> {
    const values = this.#options.counters.add(batch)
    return batch.some(isLeasedReturn) ? this.#announceAfter(batch, values) : values
  }

  /**
   * Returns the value of the counter; undefined if the counters have to be asked. Every call of a leased limit comes
   * here, so it allocates nothing, and reads the time only where the answer depends on it.
   */
  #addOne(hit: Hit): number | Promise<number> | undefined {
    const { key, hits } = hit
    if (hits < 0) return undefined
    let lease = this.#single.size === 0 ? undefined : this.#single.get(key)
    if (lease !== undefined && !lease.isOf(hit)) {
      // The window has become longer, and the counter has to be kept for it; or its limit is another.
      this.#end(lease)
      return undefined
    }
    if (lease === undefined) {
      if (!this.#replace(key, lease, hits === 0)) return undefined
      lease = this.#open(this.#single, key, [toLeasedCheck(hit)], this.#options.clock.monotonicMs())
    }
    const value = lease.take(hits)
    if (value === undefined) return this.#addBeyond(lease, hit)
    if (lease.isLow) this.#refill(lease, this.#options.clock.monotonicMs())
    return value
  }

  /** Decides hits that the lease does not have. */
  #addBeyond(lease: Lease, hit: Hit): number | Promise<number> | undefined {
    const nowMs = this.#options.clock.monotonicMs()
    const value = lease.rejects(hit.hits, nowMs)
    if (value !== undefined) {
      this.#refill(lease, nowMs)
      return value
    }
    if (hit.hits === 0) return undefined
    this.#endIfUseless(lease)
    if (!this.#canWaitFor(lease)) return undefined
    return this.#wait(lease, [toLeasedCheck(hit)], nowMs).then(([outcome]) => toValue(hit, outcome))
  }

  /** Announces keys with leases to which a call gives hits back. */
  #announceAfter<Answer>(given: readonly (Hit | LimitCheck)[], answer: Answer): Answer {
    const keys = given.flatMap(({ key, hits, leased }) => (leased && hits < 0 ? [key] : []))
    if (keys.length > 0) {
      const announce = () => this.#options.onReturned(keys)
      // The counters may have counted the call although it failed.
      Promise.resolve(answer).then(announce, announce)
    }
    return answer
  }

  #endIfUseless(lease: Lease): void {
    if (lease.isIdle && lease.isUseless) this.#end(lease)
  }

  /** Returns whether calls that the lease cannot decide can wait for what it takes next. */
  #canWaitFor(lease: Lease): boolean {
    return this.#waiting < maxWaiting && !lease.isEnding
  }

  #refill(lease: Lease, nowMs: number): void {
    if (lease.needsMore(nowMs)) this.#run(this.#take(lease))
  }

  /** Lets a call wait for what the lease takes next. */
  #wait(lease: Lease, checks: readonly LimitCheck[], nowMs: number): Promise<readonly LimitOutcome[]> {
    this.#waiting += 1
    return new Promise((resolve, reject) => {
      lease.waiting.push({ checks, askedMs: nowMs, resolve, reject })
      if (!lease.isTaking) this.#run(this.#take(lease))
    })
  }

  /** Ends a lease that is over or had other limits. Returns whether the key is hot and gets a new one. */
  #replace(id: string, former: Lease | undefined, isLook: boolean): boolean {
    if (former !== undefined) this.#end(former)
    if (isLook || this.#isClosed || !this.#isCounted() || !this.#see(id)) return false
    return this.#count === 0 ? this.#options.ensureListening() : this.#count < maxLeases
  }

  get #count(): number {
    return this.#single.size + this.#joint.size
  }

  /** Returns all leases, those that may be ended meanwhile too. */
  #all(): readonly Lease[] {
    return [...this.#single.values(), ...this.#joint.values()]
  }

  /** Returns where a lease of these limits belongs. Since keys may contain every character, an id has their lengths. */
  #placeOf(checks: readonly LimitCheck[]): { readonly leases: Map<string, Lease>; readonly id: string } {
    const [first] = checks
    if (checks.length === 1 && first !== undefined) return { leases: this.#single, id: first.key }
    return { leases: this.#joint, id: checks.map(({ key }) => `${key.length}:${key}`).join('') }
  }

  #open(leases: Map<string, Lease>, id: string, checks: readonly LimitCheck[], nowMs: number): Lease {
    const keys = checks.map(({ key }) => {
      const ofKey = this.#byKey.get(key) ?? { leases: new Set(), hits: 0 }
      this.#byKey.set(key, ofKey)
      return ofKey
    })
    const lease = new Lease(checks, keys, nowMs)
    leases.set(id, lease)
    for (const ofKey of keys) ofKey.leases.add(lease)
    return lease
  }

  /** Returns whether to count a call of a cold key. */
  #isCounted(): boolean {
    if (this.#uncounted > 0) {
      this.#uncounted -= 1
      return false
    }
    // A linear congruential generator, by Numerical Recipes.
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) | 0
    this.#uncounted = (this.#random >>> 16) % (2 * meanCallsPerCount - 1)
    return true
  }

  /** Counts a call of the key. Returns whether the key is hot. */
  #see(id: string): boolean {
    this.#timer ??= setInterval(() => this.sweep(), sweepMs).unref()
    this.#seen ??= new Int32Array(2 * places)
    const seen = this.#seen
    this.#hash.of(id)
    const hash = this.#hash.low
    const place = 2 * (this.#hash.high & (places - 1))
    const period = (this.#period << 8) | 0
    const before = seen[place + 1] ?? 0
    const count = (before & ~0xff) === period ? before & 0xff : 0
    const isOwn = seen[place] === hash
    if (count > 1 && !isOwn) {
      seen[place + 1] = before - 1
      return false
    }
    const own = isOwn ? Math.min(0xff, count + 1) : 1
    seen[place] = hash
    seen[place + 1] = period | own
    return own >= hotCounts
  }

  async #take(lease: Lease): Promise<void> {
    const { counters, clock } = this.#options
    do {
      const asked = lease.ask(clock.monotonicMs())
      this.takes.value += 1
      try {
        const outcomes = await counters.admit(asked.checks)
        this.#waiting -= lease.receive(asked, outcomes, clock.monotonicMs())
      } catch (error) {
        this.failedTakes.value += 1
        this.#waiting -= lease.fail(error, clock.monotonicMs())
      }
    } while (lease.waiting.length > 0)
    if (lease.isEnding) this.#end(lease)
  }

  #run(task: Promise<void>): void {
    const running = task.finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Returns what the lease has left, after a take that is under way. */
  #end(lease: Lease): void {
    const checks = lease.parts.map(({ check }) => check)
    const { leases, id } = this.#placeOf(checks)
    if (leases.get(id) === lease) leases.delete(id)
    lease.isEnding = true
    if (!lease.isIdle) return
    for (const { key } of checks) {
      const others = this.#byKey.get(key)?.leases
      others?.delete(lease)
      if (others?.size === 0) this.#byKey.delete(key)
    }
    const returned = lease.return()
    if (returned.length > 0) this.#run(this.#return(returned))
  }

  /** Hits that do not arrive stay counted, as those of a killed process. */
  async #return(checks: readonly LimitCheck[]): Promise<void> {
    this.returns.value += 1
    const given = checks.filter(({ hits }) => hits < 0)
    const outcomes = await Promise.resolve(this.#options.counters.admit(checks)).catch(() => undefined)
    const wasFull = (check: LimitCheck) => {
      // Without an answer, the counters may have them all the same.
      const { remaining = 0 } = outcomes?.[checks.indexOf(check)] ?? {}
      return remaining + check.hits <= 0
    }
    const keys = given.filter(wasFull).map(({ key }) => key)
    if (keys.length > 0) this.#options.onReturned(keys)
  }
}

function isLeased({ leased }: Hit): boolean {
  return leased === true
}

function isLeasedReturn({ leased, hits }: Hit): boolean {
  return leased === true && hits < 0
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}

function toList(value: number): readonly number[] {
  return [value]
}

function areLeasable(checks: readonly LimitCheck[]): boolean {
  for (const { leased, hits, countRejected } of checks) {
    if (!leased || hits < 0 || countRejected) return false
  }
  return true
}

function toLeasedCheck(hit: Hit): LimitCheck {
  return { ...toFixedWindowCheck(hit), leased: true }
}

/** Returns the value of a counter after the hit, also of one that is not counted because it is rejected. */
function toValue({ hits, limit }: Hit, outcome: LimitOutcome | undefined): number {
  const { admitted = false, remaining = 0 } = outcome ?? {}
  return limit - remaining + (admitted ? 0 : hits)
}

interface WaitingCall {
  readonly checks: readonly LimitCheck[]
  readonly askedMs: number
  readonly resolve: (outcomes: readonly LimitOutcome[]) => void
  readonly reject: (error: unknown) => void
}

/** All leases of one key. */
interface KeyLeases {
  readonly leases: Set<Lease>
  /** What they have together at most, beside the hits of calls that wait. */
  hits: number
}

/** What a lease has of one limit. */
interface Part {
  readonly ofKey: KeyLeases
  /** What it adds to the hits of its key. */
  ahead: number
  /** The limit. Its hits are those of the first call. */
  readonly check: LimitCheck
  /** The hits that are left here. */
  left: number
  /** The hits that the counters have as leased, and when they were leased. */
  size: number
  sinceMicros: number
  /** The hits that the counters had left at the last answer. */
  room: number
  /** Until then, a call that lacks more hits than the counters had left is rejected without asking. */
  shortUntilMs: number
  /** The hits that were asked for since `#measuredMs`. */
  demand: number
  hitsPerSecond: number
}

interface AskedLease {
  readonly checks: readonly LimitCheck[]
  readonly sentMs: number
  readonly revocations: number
  readonly returns: number
}

/** Hits of one limit, or of several that admit calls together. All times are monotonic. */
class Lease {
  readonly parts: readonly Part[]
  readonly waiting: WaitingCall[] = []
  isTaking = false
  isEnding = false
  #untilMs: number
  /** No refill before this time while there are hits left. */
  #pausedUntilMs = 0
  #revocations = 0
  /** How often hits were given back to a limit. */
  #returns = 0
  #measuredMs: number

  /** @param keys all leases of the key of each check */
  constructor(checks: readonly LimitCheck[], keys: readonly KeyLeases[], nowMs: number) {
    this.parts = checks.map((check, index) => ({
      check,
      ofKey: keys[index] as KeyLeases,
      ahead: 0,
      left: 0,
      size: 0,
      sinceMicros: 0,
      room: 0,
      shortUntilMs: 0,
      demand: 0,
      hitsPerSecond: 0,
    }))
    this.#untilMs = nowMs + usableMs
    this.#measuredMs = nowMs
  }

  /** Returns whether calls with these limits may use the lease. Their keys are those of the lease. */
  serves(checks: readonly LimitCheck[], nowMs: number): boolean {
    if (this.isEnding || this.isOver(nowMs) || checks.length !== this.parts.length) return false
    for (let index = 0; index < checks.length; index += 1) {
      const [asked, own] = [checks[index] as LimitCheck, (this.parts[index] as Part).check]
      const hasOwnLimit =
        asked.limit === own.limit && asked.burst === own.burst && asked.shadow === own.shadow
      if (!hasOwnLimit || asked.expirySeconds !== own.expirySeconds) return false
    }
    return true
  }

  /**
   * Returns whether it is a lease of the limit of these hits, which is one fixed window. What it has left is good as
   * long as the window, until it is returned.
   */
  isOf({ limit, expirySeconds }: Hit): boolean {
    const { check } = this.#first
    return check.limit === limit && check.expirySeconds === expirySeconds
  }

  /** The only limit of a lease of one. */
  get #first(): Part {
    return this.parts[0] as Part
  }

  /** Whether no take is under way, and none is needed for a call. */
  get isIdle(): boolean {
    return !this.isTaking && this.waiting.length === 0
  }

  isOver(nowMs: number): boolean {
    return nowMs >= this.#untilMs && this.isIdle
  }

  /** Returns the outcomes of a call that checks; undefined if the counters have to be asked. */
  look(checks: readonly LimitCheck[], nowMs: number): readonly LimitOutcome[] | undefined {
    const hasOne = this.parts.every(part => usableOf(part, nowMs < this.#untilMs) > 0)
    if (!hasOne || checks.some(({ hits }) => hits > 0)) return undefined
    return this.parts.map(part => this.#admitted(part, 0))
  }

  /**
   * Takes hits of one fixed window from what is left. Returns the value of its counter; undefined if there are too
   * few.
   */
  take(hits: number): number | undefined {
    const part = this.#first
    part.demand += hits
    const isShort = hits > part.left || part.left === 0 || this.waiting.length > 0
    if (isShort) return undefined
    part.left -= hits
    return part.check.limit - part.room - part.left
  }

  /** Returns the value of the counter after hits that are rejected without asking; undefined if they are not. */
  rejects(hits: number, nowMs: number): number | undefined {
    const { check, room, left, shortUntilMs } = this.#first
    if (this.waiting.length > 0 || hits === 0 || nowMs >= shortUntilMs) return undefined
    const remaining = room + left
    return hits > remaining ? check.limit - remaining + hits : undefined
  }

  /** Decides a call; returns undefined if it has to wait for the counters. */
  decide(checks: readonly LimitCheck[], nowMs: number): readonly LimitOutcome[] | undefined {
    for (let index = 0; index < checks.length; index += 1) {
      const part = this.parts[index] as Part
      part.demand += (checks[index] as LimitCheck).hits
    }
    return this.waiting.length > 0 ? undefined : this.#decide(checks, nowMs, nowMs < this.#untilMs, false)
  }

  /** Whether the rate of a limit is so low that a lease would save too little. */
  get isUseless(): boolean {
    return this.parts.some(
      ({ hitsPerSecond }) =>
        hitsPerSecond > 0 && leaseSize(hitsPerSecond, Number.POSITIVE_INFINITY) < leastUseful,
    )
  }

  get isLow(): boolean {
    for (const part of this.parts) if (isLow(part)) return true
    return false
  }

  /** Returns whether to take more before a call has to wait for it. */
  needsMore(nowMs: number): boolean {
    if (this.isTaking || nowMs < this.#pausedUntilMs || this.isUseless) return false
    // Every limit is asked for one hit at least, which is not to be had if other leases have too many.
    const isFull = (part: Part) => part.room > 0 && sizeAhead(part) === 0
    return this.parts.some(part => isLow(part) && nowMs >= part.shortUntilMs) && !this.parts.some(isFull)
  }

  /** Returns what to ask the counters for: what the waiting calls lack, and as much as the rate needs. */
  ask(nowMs: number): AskedLease {
    this.isTaking = true
    this.#measure(nowMs)
    const checks = this.parts.map((part, index) => {
      const { check, left, size, sinceMicros } = part
      const wanted = this.waiting.reduce((sum, call) => sum + (call.checks[index]?.hits ?? 0), 0)
      const first = this.waiting[0]?.checks[index]?.hits ?? 0
      const ahead = sizeAhead(part)
      const hits = Math.max(1, wanted + ahead - left)
      const atLeast = Math.max(0, first - left)
      setAhead(part, Math.max(left, ahead))
      return { ...check, hits, lease: { atLeast, holds: left, replaced: size, sinceMicros } }
    })
    return { checks, sentMs: nowMs, revocations: this.#revocations, returns: this.#returns }
  }

  /** Decides the waiting calls as far as the answer suffices. Returns how many. */
  receive(
    { checks, sentMs, revocations, returns }: AskedLease,
    outcomes: readonly LimitOutcome[],
    nowMs: number,
  ): number {
    this.isTaking = false
    // The answer may be older than the change for which the lease was revoked.
    if (revocations !== this.#revocations) {
      this.#countLeft()
      return 0
    }
    const isRejected = outcomes.some(({ admitted }, index) => !(admitted || checks[index]?.shadow))
    if (!isRejected) this.#untilMs = sentMs + usableMs
    for (const [index, part] of this.parts.entries()) {
      const { hits, lease } = checks[index] as LimitCheck
      const { granted = 0, remaining, atMicros = 0 } = outcomes[index] as LimitOutcome
      part.room = remaining
      // Hits may have been given back after the answer.
      const isShort = granted < hits && returns === this.#returns
      part.shortUntilMs = isShort ? nowMs + shortMs(part.check) : 0
      if (isRejected) continue
      // What was left of a lease that had ended in the counters is no longer counted there.
      if (!lastedUntil(part, atMicros)) part.left = 0
      part.left += granted
      part.size = granted + (lease?.holds ?? 0)
      part.sinceMicros = atMicros
    }
    const { atMicros } = outcomes[0] ?? {}
    const decidedAt = atMicros === undefined ? {} : { atMicros }
    let settled = 0
    for (let call = this.waiting[0]; call !== undefined; call = this.waiting[0]) {
      // A call that waited for the answer is decided for the time of the answer, however long it took.
      const hasWaited = call.askedMs <= sentMs
      const outcomes = this.#decide(call.checks, nowMs, hasWaited || nowMs < this.#untilMs, true)
      if (outcomes === undefined) break
      this.waiting.shift()
      settled += 1
      call.resolve(hasWaited ? outcomes.map(outcome => ({ ...outcome, ...decidedAt })) : outcomes)
    }
    this.#countLeft()
    return settled
  }

  /** Rejects the waiting calls for which there is not enough left. Returns how many calls were waiting. */
  fail(error: unknown, nowMs: number): number {
    this.isTaking = false
    this.#pausedUntilMs = nowMs + pauseAfterFailureMs
    // The counters may have replaced the lease. It must not be subtracted from theirs a second time.
    for (const part of this.parts) part.size = 0
    this.#countLeft()
    const calls = this.waiting.splice(0)
    for (const { checks, resolve, reject } of calls) {
      const outcomes = this.#decide(checks, nowMs, nowMs < this.#untilMs, false)
      if (outcomes === undefined) reject(error)
      else resolve(outcomes)
    }
    return calls.length
  }

  forget(): void {
    this.#returns += 1
    for (const part of this.parts) part.shortUntilMs = 0
  }

  revoke(): void {
    this.#revocations += 1
    for (const part of this.parts) this.#drop(part)
    this.forget()
  }

  /** Returns the checks that give back what is left. */
  return(): readonly LimitCheck[] {
    return this.parts.flatMap(part => {
      const { check, left, size: replaced, sinceMicros } = part
      this.#drop(part)
      const isOwed = left > 0 || (check.algorithm === 'TokenBucket' && replaced > 0)
      const lease = { atLeast: 0, holds: 0, replaced, sinceMicros }
      return isOwed ? [{ ...check, hits: 0 - left, lease }] : []
    })
  }

  #drop(part: Part): void {
    part.left = 0
    part.size = 0
    if (!this.isTaking) setAhead(part, 0)
  }

  #countLeft(): void {
    for (const part of this.parts) setAhead(part, part.left)
  }

  /**
   * @param isUsable whether the hits that are left may be used
   * @param isAnswered whether the counters have answered just now, so that all of `room` is known
   */
  #decide(
    checks: readonly LimitCheck[],
    nowMs: number,
    isUsable: boolean,
    isAnswered: boolean,
  ): readonly LimitOutcome[] | undefined {
    let isUnknown = false
    let isRejected = false
    for (let index = 0; index < checks.length; index += 1) {
      const part = this.parts[index] as Part
      const { hits, shadow } = checks[index] as LimitCheck
      const lacking = hits - usableOf(part, isUsable)
      if (lacking <= 0) continue
      if (!(isAnswered || nowMs < part.shortUntilMs) || lacking <= part.room) isUnknown = true
      else if (!shadow) isRejected = true
    }
    if (isRejected) return checks.map((check, index) => this.#rejected(index, check, isUsable, isAnswered))
    if (isUnknown) return undefined
    const outcomes: LimitOutcome[] = []
    for (let index = 0; index < checks.length; index += 1) {
      const part = this.parts[index] as Part
      const check = checks[index] as LimitCheck
      if (check.hits > usableOf(part, isUsable)) {
        outcomes.push(this.#rejected(index, check, isUsable, isAnswered))
      } else {
        part.left -= check.hits
        outcomes.push(this.#admitted(part, check.hits))
      }
    }
    return outcomes
  }

  #admitted({ check, left, room }: Part, hits: number): LimitOutcome {
    const remaining = room + left
    return { admitted: true, remaining, waitSeconds: waitFor(check, Math.max(1, hits) - remaining) }
  }

  #rejected(
    index: number,
    { hits }: Pick<LimitCheck, 'hits'>,
    isUsable: boolean,
    isAnswered: boolean,
  ): LimitOutcome {
    const part = this.parts[index] as Part
    const { check, room } = part
    const remaining = room + usableOf(part, isUsable)
    const waitSeconds = hits > check.burst ? undefined : waitFor(check, hits - remaining)
    return {
      admitted: hits <= remaining,
      remaining,
      waitSeconds,
      ...(!isAnswered && { fromLocalCache: true as const }),
    }
  }

  #measure(nowMs: number): void {
    const passedMs = nowMs - this.#measuredMs
    if (passedMs < minMeasuredMs) return
    for (const part of this.parts) {
      const measured = (part.demand * 1000) / passedMs
      part.hitsPerSecond = part.hitsPerSecond === 0 ? measured : (part.hitsPerSecond + measured) / 2
      part.demand = 0
    }
    this.#measuredMs = nowMs
  }
}

/** Returns the hits that calls may use. Those of a fixed window are good as long as the window. */
function usableOf({ check, left }: Part, isUsable: boolean): number {
  return isUsable || check.algorithm === 'FixedWindow' ? left : 0
}

/** Returns how many hits to have ahead: all leases of a key together have at most what one of them may have. */
function sizeAhead({ ofKey, ahead, room, hitsPerSecond }: Part): number {
  const others = ofKey.hits - ahead
  return Math.max(0, Math.min(leaseSize(hitsPerSecond, room), largestLease(room) - others))
}

function setAhead(part: Part, hits: number): void {
  part.ofKey.hits += hits - part.ahead
  part.ahead = hits
}

/** Returns whether little is left of a lease that is more than a single hit. */
function isLow({ left, size }: Part): boolean {
  return left * 3 < size && size > 1
}

/** Returns whether the counters still had the lease at that time. */
function lastedUntil({ check, sinceMicros }: Part, atMicros: number): boolean {
  const second = (micros: number) => Math.floor(micros / 1_000_000)
  return check.algorithm !== 'TokenBucket' || second(atMicros) - second(sinceMicros) <= 1
}

/** Returns how long to believe that a limit has nothing left: until a bucket has one more token. */
function shortMs({ algorithm, limit, windowTicks, ticksPerSecond }: LimitCheck): number {
  if (algorithm === 'FixedWindow' || limit === 0) return maxShortMs
  return Math.min(maxShortMs, (windowTicks / limit / ticksPerSecond) * 1_000)
}

/** Returns the seconds until a bucket has so many hits more. */
function waitFor({ algorithm, limit, windowTicks, ticksPerSecond }: LimitCheck, hits: number) {
  if (algorithm === 'FixedWindow' || hits <= 0) return 0
  return limit === 0 ? undefined : (hits * windowTicks) / limit / ticksPerSecond
}
