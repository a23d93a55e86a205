import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'
import {
  endedMemoryMs,
  type Ledger,
  limitTtl,
  maxReservations,
  type OpenReservations,
  type Reservation,
  type ReservationChange,
  type ReservationLimit,
  type ReservationOutcome,
  type Reservations,
  TooManyReservationsError,
  toReservingChecks,
} from './reservations.ts'

interface MemoryReservationsOptions {
  /** Admits hits in the counters of this process. */
  readonly admit: (checks: readonly LimitCheck[]) => readonly LimitOutcome[]
  readonly clock: Clock
  /** At most this many reservations of all ledgers are remembered, open and ended ones together. */
  readonly maxReservations?: number
}

interface Entry extends Reservation {
  readonly name: string
  /** The hits that each limit of the ledger counts for the open reservation. */
  readonly counted: readonly number[]
  readonly reservedAtMs: number
  /** By the monotonic clock: when the open reservation expires, or the ended one is forgotten. */
  readonly dueMs: number
}

/** The reservations of a ledger. Both lists are in the order of `dueMs`. */
interface OpenLedger {
  readonly checks: readonly LimitCheck[]
  readonly entries: Map<string, Entry>
  readonly open: Entry[]
  readonly ended: Entry[]
  /** The keys of limits whose counts have fallen since the last answer. */
  readonly decreased: string[]
}

/** Reservations in the counters of this process. Each call is one turn, and so one atomic step. */
export class MemoryReservations implements Reservations {
  readonly #options: Required<MemoryReservationsOptions>
  readonly #ledgers = new Map<string, OpenLedger>()
  #size = 0

  constructor(options: MemoryReservationsOptions) {
    this.#options = { maxReservations, ...options }
  }

  reserve({ key, checks }: Ledger, entry: string, amount: number, ttlMs: number): ReservationOutcome {
    const ledger = this.#find(key) ?? this.#create(key, checks)
    const known = ledger.entries.get(entry)
    if (known !== undefined) return this.#answer(ledger, known)
    if (this.#size >= this.#options.maxReservations) {
      throw new TooManyReservationsError('there are too many reservations')
    }
    const lastsMs = limitTtl(checks, ttlMs)
    const reserving = toReservingChecks(checks, amount).map(check => withHold(check, entry, lastsMs))
    const outcomes = this.#options.admit(reserving)
    const isRejected = outcomes.some(({ admitted }, index) => !(admitted || checks[index]?.shadow))
    if (isRejected) {
      const limits = outcomes.map((outcome, index) => withRoom(outcome, amount, ledger.open, index))
      return { reservation: undefined, limits, decreased: ledger.decreased.splice(0) }
    }
    const nowMs = this.#options.clock.nowMs()
    const made: Entry = {
      name: entry,
      state: 'open',
      amount,
      actual: 0,
      counted: outcomes.map(({ admitted }) => (admitted ? amount : 0)),
      reservedAtMs: nowMs,
      expiresAtMs: nowMs + lastsMs,
      dueMs: this.#options.clock.monotonicMs() + lastsMs,
    }
    this.#size += 1
    ledger.entries.set(entry, made)
    insert(ledger.open, made)
    return { reservation: made, limits: outcomes, decreased: ledger.decreased.splice(0) }
  }

  change(ledgerKey: string, entry: string, change: ReservationChange): ReservationOutcome {
    const ledger = this.#find(ledgerKey)
    const known = ledger?.entries.get(entry)
    if (ledger === undefined || known === undefined) {
      return { reservation: undefined, limits: [], decreased: [] }
    }
    const { clock } = this.#options
    let changed = known
    if (change.do === 'extend' && known.state === 'open') {
      const ttlMs = limitTtl(ledger.checks, change.ttlMs)
      this.#extendHolds(ledger, known, ttlMs)
      changed = { ...known, expiresAtMs: clock.nowMs() + ttlMs, dueMs: clock.monotonicMs() + ttlMs }
      remove(ledger.open, known)
      ledger.entries.set(entry, changed)
      insert(ledger.open, changed)
    } else if (change.do === 'release' && known.state === 'open') {
      this.#count(ledger, known, 0)
      changed = this.#end(ledger, known, { state: 'released' })
    } else if (change.do === 'commit' && (known.state === 'open' || known.state === 'expired')) {
      this.#count(ledger, known, change.actual)
      changed = this.#end(ledger, known, { state: 'committed', actual: change.actual })
    }
    return this.#answer(ledger, changed)
  }

  read(ledgerKey: string): OpenReservations {
    const { open = [], decreased = [] } = this.#find(ledgerKey) ?? {}
    return {
      count: open.length,
      amount: open.reduce((sum, { amount }) => sum + amount, 0),
      nextExpiryMs: open[0]?.expiresAtMs,
      decreased: decreased.splice(0),
    }
  }

  sweep(): readonly string[] {
    const all: string[] = []
    for (const [key, { open, ended, decreased }] of this.#ledgers) {
      this.#find(key)
      all.push(...decreased.splice(0))
      if (open.length === 0 && ended.length === 0) this.#ledgers.delete(key)
    }
    return all
  }

  #create(key: string, checks: readonly LimitCheck[]): OpenLedger {
    const ledger: OpenLedger = { checks, entries: new Map(), open: [], ended: [], decreased: [] }
    this.#ledgers.set(key, ledger)
    return ledger
  }

  /** Returns the ledger after what is due in it has happened. */
  #find(key: string): OpenLedger | undefined {
    const ledger = this.#ledgers.get(key)
    if (ledger === undefined) return undefined
    const nowMs = this.#options.clock.monotonicMs()
    for (let first = ledger.open[0]; first !== undefined && first.dueMs <= nowMs; first = ledger.open[0]) {
      this.#count(ledger, first, 0)
      this.#end(ledger, first, { state: 'expired' }, first.dueMs)
    }
    for (let first = ledger.ended[0]; first !== undefined && first.dueMs <= nowMs; first = ledger.ended[0]) {
      ledger.ended.shift()
      ledger.entries.delete(first.name)
      this.#size -= 1
    }
    return ledger
  }

  #extendHolds({ checks }: OpenLedger, { name, counted }: Entry, ttlMs: number): void {
    for (const [index, check] of checks.entries()) {
      const hits = counted[index] ?? 0
      if (check.algorithm !== 'Concurrency' || hits === 0) continue
      const held = withHold(check, name, ttlMs)
      this.#options.admit([{ ...held, hits: -hits }])
      // It is not a new hold, so it has no limit.
      this.#options.admit([{ ...held, limit: Number.MAX_SAFE_INTEGER, hits }])
    }
  }

  /** Counts these hits in the place of the reserved ones. Nothing that was used stays held. */
  #count(ledger: OpenLedger, { name, counted, reservedAtMs }: Entry, hits: number): void {
    const { admit, clock } = this.#options
    for (const [index, check] of ledger.checks.entries()) {
      const used = check.algorithm === 'Concurrency' ? 0 : hits
      const more = used - (counted[index] ?? 0)
      if (more === 0 || (more < 0 && !isSameWindow(check, reservedAtMs, clock.nowMs()))) continue
      // What was used counts even beyond the limit.
      admit([{ ...withHold(check, name, 0), hits: more, countRejected: true }])
      if (more < 0) ledger.decreased.push(check.key)
    }
  }

  /** @param endMs when the reservation ended, by the monotonic clock */
  #end(
    ledger: OpenLedger,
    entry: Entry,
    change: Partial<Reservation>,
    endMs = this.#options.clock.monotonicMs(),
  ): Entry {
    const ended = {
      ...entry,
      ...change,
      counted: entry.counted.map(() => 0),
      dueMs: endMs + endedMemoryMs,
    }
    remove(entry.state === 'open' ? ledger.open : ledger.ended, entry)
    ledger.entries.set(entry.name, ended)
    insert(ledger.ended, ended)
    return ended
  }

  #answer({ checks, decreased }: OpenLedger, entry: Entry): ReservationOutcome {
    const limits = checks.flatMap(check => this.#options.admit([{ ...check, hits: 0 }]))
    return { reservation: entry, limits, decreased: decreased.splice(0) }
  }
}

/** Names the hold of a reservation, if the limit has holds. */
function withHold(check: LimitCheck, name: string, ttlMs: number): LimitCheck {
  if (check.algorithm !== 'Concurrency') return check
  return { ...check, hold: { name, ticks: Math.ceil((ttlMs / 1000) * check.ticksPerSecond) } }
}

/** Adds when the limit has room for the amount because reservations expire, if they suffice. */
function withRoom(
  outcome: LimitOutcome,
  amount: number,
  open: readonly Entry[],
  index: number,
): ReservationLimit {
  let missing = outcome.admitted ? 0 : amount - outcome.remaining
  if (missing <= 0) return outcome
  for (const { counted, expiresAtMs } of open) {
    missing -= counted[index] ?? 0
    if (missing <= 0) return { ...outcome, roomAtMs: expiresAtMs }
  }
  return outcome
}

/**
 * Returns whether the limit can give back what was counted at `thenMs`. A fixed window is part of the key,
 * and the debt of a token bucket has no time. Only a sliding window forgets in which window hits were
 * counted.
 */
function isSameWindow({ algorithm, windowTicks, ticksPerSecond }: LimitCheck, thenMs: number, nowMs: number) {
  const windowMs = (windowTicks / ticksPerSecond) * 1000
  return algorithm !== 'SlidingWindow' || Math.floor(thenMs / windowMs) === Math.floor(nowMs / windowMs)
}

function insert(list: Entry[], entry: Entry): void {
  let at = list.length
  while (at > 0 && (list[at - 1]?.dueMs ?? 0) > entry.dueMs) at -= 1
  list.splice(at, 0, entry)
}

function remove(list: Entry[], entry: Entry): void {
  const at = list.indexOf(entry)
  if (at >= 0) list.splice(at, 1)
}
