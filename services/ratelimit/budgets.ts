import { randomFillSync } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { LimitCheck } from './counters/admission/limit-check.ts'
import { CountersError } from './counters/counters.ts'
import {
  endedMemoryMs,
  type Ledger,
  type RequestAssignment,
  type Reservation,
  type ReservationChange,
  type ReservationLimit,
  type ReservationOutcome,
  type Reservations,
  TooManyReservationsError,
} from './counters/reservations.ts'
import { hashText, recordHits } from './limiter/admission.ts'
import type { DescriptorRequest } from './limiter/decision.ts'
import {
  nameLedger,
  nameRequest,
  parseReservationId,
  toLedgerKey,
  toReservationId,
} from './limiter/ledgers.ts'
import { type LocatedCounter, locateCounters } from './limiter/locate-counters.ts'
import type { RuleSet } from './rules/compile.ts'
import type { DescriptorEntry } from './rules/match.ts'
import { windowStart } from './rules/window.ts'
import type { LimitStats } from './stats/limit-stats.ts'

export interface ReserveRequest {
  readonly domain: string
  readonly descriptor: DescriptorRequest | undefined
  readonly amount: number
  /** Undefined if the request has none. */
  readonly ttlMs: number | undefined
  readonly requestId: string
}

export type ReserveResponse =
  | {
      readonly result: 'reservation'
      readonly id: string
      readonly remaining: number
      readonly expiresAtMs: number
    }
  | { readonly result: 'rejection'; readonly remaining: number; readonly nextChanceMs: number | undefined }

interface Remaining {
  readonly remaining: number
}

interface Expiry {
  readonly expiresAtMs: number
}

interface LocatedLedger {
  /** The beginning of the ids of its reservations. */
  readonly name: string
  readonly ledger: Ledger
}

interface RepeatedReservation {
  readonly id: string
  readonly reservation: Reservation
  readonly outcome: ReservationOutcome
}

interface BudgetsOptions {
  readonly rules: () => RuleSet<LimitStats> | undefined
  /** Undefined if the backend has none. */
  readonly reservations: Reservations | undefined
  readonly clock: Clock
  readonly cacheKeyPrefix: string
  /** Whether limits per second are counted in a Redis of their own, which has no reservations. */
  readonly hasPerSecondBackend: boolean
  /** Whether no limit rejects anything. */
  readonly shadowMode: boolean
  /** See `nearLimitThreshold`. */
  readonly nearLimitRatio: number
  /** Called with the keys of counters that have become lower. */
  readonly onDecrease: (keys: readonly string[]) => void
}

/** The id of a reservation of an unlimited descriptor. Nothing is counted for it. */
const unlimitedId = 'unlimited'
const maxTtlMs = 24 * 3600 * 1000
const maxRequestIdBytes = 256
const maxAmount = Number.MAX_SAFE_INTEGER
const maxIdLength = 64
/** The names of counters and ledgers contain the descriptor. */
const maxDescriptorBytes = 16_384

const sweepsWhileIdle = 20

/**
 * Reserves amounts in the limits of a descriptor, and counts what was used in the end: the methods of
 * tollway.ratelimit.v1.Budgets, as budgets.proto documents them. Each throws a `GrpcError`, or rejects with it.
 */
export class Budgets {
  readonly #options: BudgetsOptions
  #isUsed = false
  #idleSweeps = 0

  constructor(options: BudgetsOptions) {
    this.#options = options
  }

  reserve(request: ReserveRequest): ReserveResponse | Promise<ReserveResponse> {
    const { clock, hasPerSecondBackend, cacheKeyPrefix } = this.#options
    const reservations = this.#reservations()
    const { domain, entries, amount, ttlMs, requestId } = checkReserve(request)
    const nowSeconds = Math.floor(clock.nowMs() / 1000)
    const counters = this.#locate(domain, entries, nowSeconds)
    if (counters.length === 0) {
      const expiresAtMs = clock.nowMs() + ttlMs
      return { result: 'reservation', id: unlimitedId, remaining: maxAmount, expiresAtMs }
    }
    if (hasPerSecondBackend && counters.some(({ perSecond }) => perSecond)) {
      throw new GrpcError(
        'FAILED_PRECONDITION',
        'descriptor: its limit is per second, in a Redis of its own that has no reservations; reserve in a longer window',
      )
    }
    const located = this.#toLedger(counters, this.#options.shadowMode)
    const entry = requestId === '' ? randomEntry() : hashText(requestId)
    const make = () =>
      this.#call(
        () => reservations.reserve(located.ledger, entry, amount, ttlMs),
        outcome => {
          const { reservation, isRepeated } = outcome
          if (!isRepeated) this.#record(counters, outcome, amount)
          if (reservation === undefined) return toRejection(outcome, counters, amount, clock.nowMs())
          return checkRepeated({ id: toReservationId(located, entry), reservation, outcome }, amount)
        },
      )
    if (requestId === '' || !mayOutlastWindow(counters, nowSeconds, ttlMs)) return make()
    const key = nameRequest(cacheKeyPrefix, [domain, entries, requestId])
    const assignment = { key, ledger: located.name, ttlMs: ttlMs + endedMemoryMs }
    return this.#findElsewhere(assignment, entry).then(
      repeated => (repeated === undefined ? make() : checkRepeated(repeated, amount)),
      throwStatus,
    )
  }

  commit(id: string, actual: number): Remaining | Promise<Remaining> {
    if (id === unlimitedId) return { remaining: maxAmount }
    return this.#change(id, { do: 'commit', actual }, ({ state, actual: counted }, outcome) => {
      if (state !== 'committed') throw ended(state)
      if (counted !== actual) {
        throw new GrpcError(
          'FAILED_PRECONDITION',
          `actual: the reservation was committed with ${counted}, not ${actual}`,
        )
      }
      return { remaining: leastRemaining(outcome) }
    })
  }

  release(id: string): Remaining | Promise<Remaining> {
    if (id === unlimitedId) return { remaining: maxAmount }
    return this.#change(id, { do: 'release' }, ({ state }, outcome) => {
      if (state === 'committed') throw ended(state)
      return { remaining: leastRemaining(outcome) }
    })
  }

  extend(id: string, ttlMs: number | undefined): Expiry | Promise<Expiry> {
    const checked = checkTtl(ttlMs)
    if (id === unlimitedId) return { expiresAtMs: this.#options.clock.nowMs() + checked }
    return this.#change(id, { do: 'extend', ttlMs: checked }, reservation => {
      if (reservation.state !== 'open') throw ended(reservation.state)
      return reservation
    })
  }

  /**
   * Ends reservations that have expired, also those of processes that have stopped. To be called about twice
   * a second. While nobody reserves anything, only each 20th call asks the backend.
   */
  async sweep(): Promise<void> {
    const { reservations, cacheKeyPrefix } = this.#options
    this.#idleSweeps += 1
    if (reservations === undefined || (!this.#isUsed && this.#idleSweeps % sweepsWhileIdle !== 0)) return
    try {
      const decreased = await reservations.sweep(cacheKeyPrefix)
      if (decreased.length > 0) this.#isUsed = true
      this.#announce(decreased)
    } catch (error) {
      // The health of the backend is watched elsewhere, and the next call tries again.
      if (!(error instanceof CountersError)) throw error
    }
  }

  #reservations(): Reservations {
    const { reservations } = this.#options
    if (reservations !== undefined) return reservations
    throw new GrpcError('UNIMPLEMENTED', 'memcached has no reservations; use Redis or memory as BACKEND_TYPE')
  }

  #announce(decreased: readonly string[]): void {
    if (decreased.length > 0) this.#options.onDecrease(decreased)
  }

  /** Returns the counters of a descriptor; none if it has no limit. */
  #locate(
    domain: string,
    entries: readonly DescriptorEntry[],
    nowSeconds: number,
  ): readonly LocatedCounter[] {
    const { rules, cacheKeyPrefix } = this.#options
    return locateCounters(rules(), domain, entries, { cacheKeyPrefix, nowSeconds })?.counters ?? []
  }

  /**
   * Resolves with the reservation that a request has in another ledger, since a window has ended; otherwise with
   * undefined, and from now on the request belongs to this ledger.
   */
  async #findElsewhere(
    assignment: Omit<RequestAssignment, 'instead'>,
    entry: string,
  ): Promise<RepeatedReservation | undefined> {
    const reservations = this.#reservations()
    let instead = ''
    for (;;) {
      const name = await reservations.assign({ ...assignment, instead })
      if (name === assignment.ledger) return undefined
      const ledgerKey = toLedgerKey(this.#options.cacheKeyPrefix, name)
      const outcome = await reservations.change(ledgerKey, entry, { do: 'look' })
      this.#announce(outcome.decreased)
      const { reservation } = outcome
      if (reservation !== undefined) return { id: toReservationId({ name }, entry), reservation, outcome }
      instead = name
    }
  }

  /** Counts a reservation, or its rejection, in the statistics of its limits. */
  #record(counters: readonly LocatedCounter[], { limits }: ReservationOutcome, amount: number): void {
    for (const [index, { limit, check }] of counters.entries()) {
      const outcome = limits[index]
      if (outcome) recordHits(limit, { ...check, hits: amount }, outcome, this.#options.nearLimitRatio)
    }
  }

  #toLedger(counters: readonly LocatedCounter[], shadow: boolean): LocatedLedger {
    const checks = counters.map(({ check }) => (shadow ? { ...check, shadow } : check))
    const { key, name } = nameLedger(this.#options.cacheKeyPrefix, checks)
    return { name, ledger: { key, checks } }
  }

  #change<Answer>(
    id: string,
    change: ReservationChange,
    answer: (reservation: Reservation, outcome: ReservationOutcome) => Answer,
  ): Answer | Promise<Answer> {
    const reservations = this.#reservations()
    const parsed = parseReservationId(this.#options.cacheKeyPrefix, id)
    if (parsed === undefined) {
      const found = id.length <= maxIdLength ? `'${id}'` : `a text of ${id.length} characters`
      throw invalid(`id: expected an id that Reserve returned, found ${found}`)
    }
    return this.#call(
      () => reservations.change(parsed.ledgerKey, parsed.entry, change),
      outcome => {
        if (outcome.reservation !== undefined) return answer(outcome.reservation, outcome)
        throw new GrpcError(
          'NOT_FOUND',
          `id: there is no reservation ${id}, or it ended more than 5 minutes ago`,
        )
      },
    )
  }

  /** Answers at once if the backend does. */
  #call<Answer>(
    run: () => ReservationOutcome | Promise<ReservationOutcome>,
    answer: (outcome: ReservationOutcome) => Answer | Promise<Answer>,
  ): Answer | Promise<Answer> {
    this.#isUsed = true
    const announceAndAnswer = (outcome: ReservationOutcome) => {
      this.#announce(outcome.decreased)
      return answer(outcome)
    }
    let outcome: ReservationOutcome | Promise<ReservationOutcome>
    try {
      outcome = run()
    } catch (error) {
      throwStatus(error)
    }
    return outcome instanceof Promise
      ? outcome.then(announceAndAnswer, throwStatus)
      : announceAndAnswer(outcome)
  }
}

/**
 * Returns whether a request may be repeated in another window than the one of now, or was made in another one: a
 * reservation is remembered for `endedMemoryMs` after its time to live.
 */
function mayOutlastWindow(counters: readonly LocatedCounter[], nowSeconds: number, ttlMs: number): boolean {
  const seconds = Math.ceil((ttlMs + endedMemoryMs) / 1000)
  return counters.some(
    ({ check, limit }) =>
      check.algorithm === 'FixedWindow' &&
      windowStart(nowSeconds - seconds, limit) !== windowStart(nowSeconds + seconds, limit),
  )
}

function throwStatus(error: unknown): never {
  if (error instanceof TooManyReservationsError) throw new GrpcError('RESOURCE_EXHAUSTED', error.message)
  if (error instanceof CountersError) throw new GrpcError('UNAVAILABLE', error.message)
  throw error
}

const entryBytes = 16
/** Random bytes for many entries: filling one buffer costs less than many small ones. */
const randomPool = Buffer.alloc(256 * entryBytes)
let randomUsed = randomPool.length

function randomEntry(): string {
  if (randomUsed === randomPool.length) {
    randomFillSync(randomPool)
    randomUsed = 0
  }
  randomUsed += entryBytes
  return randomPool.toString('base64url', randomUsed - entryBytes, randomUsed)
}

function checkReserve({ domain, descriptor, amount, ttlMs, requestId }: ReserveRequest) {
  if (domain === '') throw invalid('domain: must not be empty')
  if (descriptor === undefined || descriptor.entries.length === 0) {
    throw invalid('descriptor.entries: must not be empty')
  }
  const bytesOf = (text: string) => Buffer.byteLength(text)
  const length = descriptor.entries.reduce((sum, { key, value }) => sum + bytesOf(key) + bytesOf(value), 0)
  if (length > maxDescriptorBytes) {
    throw invalid(`descriptor.entries: expected at most ${maxDescriptorBytes} bytes, found ${length}`)
  }
  if (descriptor.limit !== undefined) throw invalid('descriptor.limit: must be absent')
  if (descriptor.hitsAddend !== undefined) throw invalid('descriptor.hits_addend: must be absent; use amount')
  if (amount < 1) throw invalid('amount: expected at least 1, found 0')
  const bytes = bytesOf(requestId)
  if (bytes > maxRequestIdBytes) {
    throw invalid(`request_id: expected at most ${maxRequestIdBytes} bytes, found ${bytes}`)
  }
  return { domain, entries: descriptor.entries, amount, ttlMs: checkTtl(ttlMs), requestId }
}

function checkTtl(ttlMs: number | undefined): number {
  if (ttlMs !== undefined && ttlMs >= 1 && ttlMs <= maxTtlMs) return Math.floor(ttlMs)
  // As in JSON, with at most nine decimal places.
  const found = ttlMs === undefined ? 'none' : `${(ttlMs / 1000).toFixed(9).replace(/\.?0+$/, '')}s`
  throw invalid(`ttl: expected 0.001s to ${maxTtlMs / 1000}s, found ${found}`)
}

function invalid(message: string): GrpcError {
  return new GrpcError('INVALID_ARGUMENT', message)
}

function ended(state: string): GrpcError {
  return new GrpcError('FAILED_PRECONDITION', `id: the reservation has ended: it is ${state}`)
}

/** Returns the answer for a reservation that this call or an earlier one made. */
function checkRepeated({ id, reservation, outcome }: RepeatedReservation, amount: number): ReserveResponse {
  if (reservation.amount !== amount) {
    throw invalid(
      `request_id: a reservation of ${reservation.amount} has it already, so amount cannot be ${amount}`,
    )
  }
  const { expiresAtMs } = reservation
  return { result: 'reservation', id, remaining: leastRemaining(outcome), expiresAtMs }
}

function leastRemaining({ limits }: Pick<ReservationOutcome, 'limits'>): number {
  return Math.max(0, Math.min(...limits.map(({ remaining }) => remaining)))
}

function toRejection(
  { limits }: ReservationOutcome,
  counters: readonly LocatedCounter[],
  amount: number,
  nowMs: number,
): ReserveResponse {
  const chances = limits.map((limit, index) => {
    const { check, resetSeconds } = counters[index] as LocatedCounter
    if (limit.admitted || check.shadow) return nowMs
    return Math.min(
      limit.roomAtMs ?? Number.POSITIVE_INFINITY,
      findResetMs(limit, check, resetSeconds, amount, nowMs),
    )
  })
  const nextChanceMs = Math.max(...chances)
  return {
    result: 'rejection',
    remaining: leastRemaining({ limits }),
    nextChanceMs: nextChanceMs === Number.POSITIVE_INFINITY ? undefined : nextChanceMs,
  }
}

/**
 * Returns when the limit has room for a rejected amount; infinity if the limit is smaller than the amount.
 */
function findResetMs(
  { waitSeconds }: ReservationLimit,
  { algorithm, burst }: LimitCheck,
  resetSeconds: number,
  amount: number,
  nowMs: number,
): number {
  if (amount > burst) return Number.POSITIVE_INFINITY
  if (algorithm === 'FixedWindow') return (Math.floor(nowMs / 1000) + resetSeconds) * 1000
  return nowMs + Math.ceil((waitSeconds ?? Number.POSITIVE_INFINITY) * 1000)
}
