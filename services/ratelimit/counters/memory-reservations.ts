import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'
import { type Expiring, ExpiringTable } from './expiring-table.ts'
import {
  endedMemoryMs,
  type Ledger,
  limitTtl,
  maxReservations,
  maxSummed,
  type OpenReservations,
  type RequestAssignment,
  type Reservation,
  type ReservationChange,
  type ReservationLimit,
  type ReservationOutcome,
  type Reservations,
  readForRoom,
  TooManyReservationsError,
} from './reservations.ts'

interface MemoryReservationsOptions {
  /** Admits hits in the counters of this process. */
  readonly admit: (checks: readonly LimitCheck[]) => readonly LimitOutcome[]
  /** Names the window in which a sliding window counts hits now. */
  readonly windowOf: (check: LimitCheck) => number
  readonly clock: Clock
  /** At most this many reservations of all ledgers are remembered, open and ended ones together. */
  readonly maxReservations?: number
}

interface Entry extends Reservation {
  readonly name: string
  /** The hits that each limit of the ledger counts for the open reservation. */
  readonly counted: readonly number[]
  /** For each limit that is a sliding window, the window in which these hits are; 0 for the others. */
  readonly windows: readonly number[]
  /** By the monotonic clock: when the open reservation expires, or the ended one is forgotten. */
  readonly dueMs: number
  /** The index in the heap of the ledger. */
  place: number
}

/** The reservations of a ledger. */
interface OpenLedger {
  /** As the last reservation had them. */
  checks: readonly LimitCheck[]
  readonly entries: Map<string, Entry>
  readonly open: DueHeap
  readonly ended: DueHeap
  /** The keys of limits whose counts have fallen since the last answer. */
  readonly decreased: string[]
}

/** At most this many ended reservations of a ledger are forgotten in one call; the next calls forget more. */
const forgottenInOneCall = 10_000

/** Reservations in the counters of this process. Each call is one turn, and so one atomic step. */
export class MemoryReservations implements Reservations {
  readonly #options: Required<MemoryReservationsOptions>
  readonly #ledgers = new Map<string, OpenLedger>()
  /** The name of the ledger of each request that may be repeated in a later window. */
  readonly #assignments: ExpiringTable<Expiring & { readonly ledger: string }>
  #size = 0

  constructor(options: MemoryReservationsOptions) {
    this.#options = { maxReservations, ...options }
    this.#assignments = new ExpiringTable(this.#options.maxReservations)
  }

  reserve({ key, checks }: Ledger, entry: string, amount: number, ttlMs: number): ReservationOutcome {
    const ledger = this.#find(key) ?? this.#create(key, checks)
    const known = ledger.entries.get(entry)
    if (known !== undefined) return this.#answer(ledger, known)
    const { maxReservations: most } = this.#options
    if (this.#size >= most)
      throw new TooManyReservationsError(`the process has ${most} reservations, which is the most`)
    const lastsMs = limitTtl(checks, ttlMs)
    // A rejected amount is counted nowhere.
    const reserving = checks.map(check => ({ ...check, hits: amount, countRejected: false }))
    const outcomes = this.#options.admit(reserving.map(check => withHold(check, entry, lastsMs)))
    const isRejected = outcomes.some(({ admitted }, index) => !(admitted || checks[index]?.shadow))
    if (isRejected) {
      const limits = outcomes.map((outcome, index) => withRoom(outcome, amount, ledger.open, index))
      return { reservation: undefined, isRepeated: false, limits, decreased: ledger.decreased.splice(0) }
    }
    const nowMs = this.#options.clock.nowMs()
    const made: Entry = {
      name: entry,
      state: 'open',
      amount,
      actual: 0,
      counted: outcomes.map(({ admitted }) => (admitted ? amount : 0)),
      windows: checks.map(check => this.#windowOf(check)),
      expiresAtMs: nowMs + lastsMs,
      dueMs: this.#options.clock.monotonicMs() + lastsMs,
      place: 0,
    }
    this.#size += 1
    ledger.checks = checks
    ledger.entries.set(entry, made)
    ledger.open.add(made)
    return { reservation: made, isRepeated: false, limits: outcomes, decreased: ledger.decreased.splice(0) }
  }

  change(ledgerKey: string, entry: string, change: ReservationChange): ReservationOutcome {
    const ledger = this.#find(ledgerKey)
    const known = ledger?.entries.get(entry)
    if (ledger === undefined || known === undefined) {
      return { reservation: undefined, isRepeated: false, limits: [], decreased: [] }
    }
    const { clock } = this.#options
    let changed = known
    if (change.do === 'extend' && known.state === 'open') {
      const ttlMs = limitTtl(ledger.checks, change.ttlMs)
      if (this.#extendHolds(ledger, known, ttlMs)) {
        changed = { ...known, expiresAtMs: clock.nowMs() + ttlMs, dueMs: clock.monotonicMs() + ttlMs }
        ledger.open.delete(known)
        ledger.entries.set(entry, changed)
        ledger.open.add(changed)
      } else {
        this.#count(ledger, known, 0)
        changed = this.#end(ledger, known, { state: 'expired' })
      }
    } else if (change.do === 'release' && known.state === 'open') {
      this.#count(ledger, known, 0)
      changed = this.#end(ledger, known, { state: 'released' })
    } else if (change.do === 'commit' && (known.state === 'open' || known.state === 'expired')) {
      this.#count(ledger, known, change.actual)
      changed = this.#end(ledger, known, { state: 'committed', actual: change.actual })
    }
    return this.#answer(ledger, changed)
  }

  assign({ key, ledger, instead, ttlMs }: RequestAssignment): string {
    const nowSeconds = Math.floor(this.#options.clock.monotonicMs() / 1000)
    const known = this.#assignments.get(key, nowSeconds)
    if (known !== undefined && known.ledger !== instead) return known.ledger
    const expiresAt = nowSeconds + Math.ceil(ttlMs / 1000)
    this.#assignments.set(key, { ledger, expiresAt }, nowSeconds)
    return ledger
  }

  read(ledgerKey: string, listed: number): OpenReservations {
    const { open, decreased = [] } = this.#find(ledgerKey) ?? {}
    const summed = open?.values().take(maxSummed).toArray() ?? []
    const first = summed.slice(0, listed)
    return {
      count: open?.size ?? 0,
      summed: summed.length,
      amount: summed.reduce((sum, { amount }) => sum + amount, 0),
      nextExpiryMs: summed[0]?.expiresAtMs,
      first: first.map(({ name, amount, expiresAtMs }) => ({ entry: name, amount, expiresAtMs })),
      decreased: decreased.splice(0),
    }
  }

  sweep(): readonly string[] {
    const all: string[] = []
    for (const [key, { open, ended, decreased }] of this.#ledgers) {
      this.#find(key)
      all.push(...decreased.splice(0))
      if (open.size === 0 && ended.size === 0) this.#ledgers.delete(key)
    }
    return all
  }

  #create(key: string, checks: readonly LimitCheck[]): OpenLedger {
    const ledger: OpenLedger = {
      checks,
      entries: new Map(),
      open: new DueHeap(),
      ended: new DueHeap(),
      decreased: [],
    }
    this.#ledgers.set(key, ledger)
    return ledger
  }

  /** Returns the ledger after what is due in it has happened. */
  #find(key: string): OpenLedger | undefined {
    const ledger = this.#ledgers.get(key)
    if (ledger === undefined) return undefined
    const nowMs = this.#options.clock.monotonicMs()
    for (let first = ledger.open.first(); first && first.dueMs <= nowMs; first = ledger.open.first()) {
      this.#count(ledger, first, 0)
      this.#end(ledger, first, { state: 'expired' }, first.dueMs)
    }
    for (let count = 0; count < forgottenInOneCall; count++) {
      const first = ledger.ended.first()
      if (first === undefined || first.dueMs > nowMs) break
      ledger.ended.delete(first)
      ledger.entries.delete(first.name)
      this.#size -= 1
    }
    return ledger
  }

  /** Returns false if a hold has ended before its reservation: the clock may have stepped, or it was given back. */
  #extendHolds({ checks }: OpenLedger, { name, counted }: Entry, ttlMs: number): boolean {
    return checks.every((check, index) => {
      const hits = counted[index] ?? 0
      if (check.algorithm !== 'Concurrency' || hits === 0) return true
      const [outcome] = this.#options.admit([{ ...withHold(check, name, ttlMs, true), hits }])
      return outcome?.admitted === true
    })
  }

  #windowOf(check: LimitCheck): number {
    return check.algorithm === 'SlidingWindow' ? this.#options.windowOf(check) : 0
  }

  /** Counts these hits in the place of the reserved ones. Nothing that was used stays held. */
  #count(ledger: OpenLedger, { name, counted, windows }: Entry, hits: number): void {
    const { admit } = this.#options
    for (const [index, check] of ledger.checks.entries()) {
      const used = check.algorithm === 'Concurrency' ? 0 : hits
      const more = used - (counted[index] ?? 0)
      // A sliding window gives back only what is counted in its current window.
      if (more === 0 || (more < 0 && this.#windowOf(check) !== windows[index])) continue
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
    const list = entry.state === 'open' ? ledger.open : ledger.ended
    list.delete(entry)
    ledger.entries.set(entry.name, ended)
    ledger.ended.add(ended)
    return ended
  }

  #answer({ checks, decreased }: OpenLedger, entry: Entry): ReservationOutcome {
    const limits = checks.flatMap(check => this.#options.admit([{ ...check, hits: 0 }]))
    return { reservation: entry, isRepeated: true, limits, decreased: decreased.splice(0) }
  }
}

/** Names the hold of a reservation, if the limit has holds. */
function withHold(check: LimitCheck, name: string, ttlMs: number, renews = false): LimitCheck {
  if (check.algorithm !== 'Concurrency') return check
  const ticks = Math.ceil((ttlMs / 1000) * check.ticksPerSecond)
  return { ...check, hold: { name, ticks, ...(renews && { renews }) } }
}

/** Adds when the limit has room for the amount because reservations expire, if they suffice. */
function withRoom(outcome: LimitOutcome, amount: number, open: DueHeap, index: number): ReservationLimit {
  let missing = outcome.admitted ? 0 : amount - outcome.remaining
  if (missing <= 0) return outcome
  for (const { counted, expiresAtMs } of open.values().take(readForRoom)) {
    missing -= counted[index] ?? 0
    if (missing <= 0) return { ...outcome, roomAtMs: expiresAtMs }
  }
  return outcome
}

/** A binary heap of entries by `dueMs`, from which any entry can be deleted. */
class DueHeap {
  readonly #heap: Entry[] = []

  get size(): number {
    return this.#heap.length
  }

  first(): Entry | undefined {
    return this.#heap[0]
  }

  /** Returns the entries in the order of `dueMs`, each when it is asked for. */
  *values(): Generator<Entry> {
    const next = this.#heap.slice(0, 1)
    for (let entry = takeFirst(next); entry !== undefined; entry = takeFirst(next)) {
      yield entry
      const child = 2 * entry.place + 1
      next.push(...this.#heap.slice(child, child + 2))
    }
  }

  add(entry: Entry): void {
    this.#rise(entry, this.#heap.length)
  }

  delete(entry: Entry): void {
    const last = this.#heap.pop()
    if (last === undefined || last === entry) return
    this.#rise(last, entry.place)
    this.#sink(last)
  }

  #put(entry: Entry, place: number): void {
    this.#heap[place] = entry
    entry.place = place
  }

  #rise(entry: Entry, from: number): void {
    let place = from
    while (place > 0) {
      const parent = this.#heap[(place - 1) >>> 1] as Entry
      if (parent.dueMs <= entry.dueMs) break
      this.#put(parent, place)
      place = (place - 1) >>> 1
    }
    this.#put(entry, place)
  }

  #sink(entry: Entry): void {
    for (;;) {
      const child = 2 * entry.place + 1
      const [left, right] = [this.#heap[child], this.#heap[child + 1]]
      const earlier = right !== undefined && left !== undefined && right.dueMs < left.dueMs ? right : left
      if (earlier === undefined || earlier.dueMs >= entry.dueMs) return
      const place = earlier.place
      this.#put(earlier, entry.place)
      this.#put(entry, place)
    }
  }
}

function takeFirst(entries: Entry[]): Entry | undefined {
  let first = 0
  for (const [index, { dueMs }] of entries.entries()) if (dueMs < (entries[first]?.dueMs ?? 0)) first = index
  const [taken] = entries.splice(first, 1)
  return taken
}
