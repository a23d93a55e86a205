import { randomBytes } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { LimitCheck } from './counters/admission/limit-check.ts'
import { CountersError } from './counters/counters.ts'
import { findHashSlot, listHashTags } from './counters/redis/cluster/hash-slot.ts'
import {
  type Ledger,
  type ReservationChange,
  type ReservationLimit,
  type ReservationOutcome,
  type Reservations,
  TooManyReservationsError,
} from './counters/reservations.ts'
import { hashText } from './limiter/admission.ts'
import type { DescriptorRequest } from './limiter/decision.ts'
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
  /** Called with the keys of counters that have become lower. */
  readonly onDecrease: (keys: readonly string[]) => void
}

/** The id of a reservation of an unlimited descriptor. Nothing is counted for it. */
const unlimitedId = 'unlimited'
const maxTtlMs = 24 * 3600 * 1000
const maxRequestIdBytes = 256
const maxAmount = Number.MAX_SAFE_INTEGER
const maxIdLength = 64

const sweepsWhileIdle = 20

/** A request_id is also looked up in the windows of this time ago: it may be a repetition in a new window. */
const lookBackSeconds = 60

/**
 * Reserves amounts in the limits of a descriptor, and counts what was used in the end: the methods of
 * tollway.ratelimit.v1.Budgets, as budgets.proto documents them. Each rejects with a `GrpcError`.
 */
export class Budgets {
  readonly #options: BudgetsOptions
  /** Listed with the first reservation, because it takes some milliseconds. */
  #hashTags: readonly string[] | undefined
  #isUsed = false
  #idleSweeps = 0

  constructor(options: BudgetsOptions) {
    this.#options = options
  }

  async reserve(request: ReserveRequest): Promise<ReserveResponse> {
    const { clock, hasPerSecondBackend } = this.#options
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
    const ledger = this.#toLedger(counters, this.#options.shadowMode)
    const entry = requestId === '' ? randomBytes(16).toString('base64url') : hashText(requestId)
    if (requestId !== '') {
      const earlier = await this.#findEarlier(domain, entries, entry, counters, ledger, nowSeconds)
      if (earlier !== undefined) return checkRepeated(earlier, amount)
    }
    const outcome = await this.#call(() => reservations.reserve(ledger, entry, amount, ttlMs))
    this.#announce(outcome.decreased)
    const id = toId(ledger, entry)
    if (outcome.reservation === undefined) return toRejection(outcome, counters, amount, clock.nowMs())
    return checkRepeated({ id, outcome }, amount)
  }

  async commit(id: string, actual: number): Promise<{ readonly remaining: number }> {
    if (id === unlimitedId) return { remaining: maxAmount }
    const outcome = await this.#change(id, { do: 'commit', actual })
    const { state, actual: counted } = outcome.reservation
    if (state !== 'committed') throw ended(state)
    if (counted !== actual) {
      throw new GrpcError(
        'FAILED_PRECONDITION',
        `actual: the reservation was committed with ${counted}, not ${actual}`,
      )
    }
    return { remaining: leastRemaining(outcome) }
  }

  async release(id: string): Promise<{ readonly remaining: number }> {
    if (id === unlimitedId) return { remaining: maxAmount }
    const outcome = await this.#change(id, { do: 'release' })
    const { state } = outcome.reservation
    if (state === 'committed') throw ended(state)
    return { remaining: leastRemaining(outcome) }
  }

  async extend(id: string, ttlMs: number | undefined): Promise<{ readonly expiresAtMs: number }> {
    const checked = checkTtl(ttlMs)
    if (id === unlimitedId) return { expiresAtMs: this.#options.clock.nowMs() + checked }
    const { reservation } = await this.#change(id, { do: 'extend', ttlMs: checked })
    if (reservation.state !== 'open') throw ended(reservation.state)
    return reservation
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

  /** Finds the reservation that a request made before its window ended. */
  async #findEarlier(
    domain: string,
    entries: readonly DescriptorEntry[],
    entry: string,
    counters: readonly LocatedCounter[],
    { key }: Ledger,
    nowSeconds: number,
  ) {
    const fixed = counters.filter(({ check }) => check.algorithm === 'FixedWindow')
    const latest = Math.max(...fixed.map(({ limit }) => windowStart(nowSeconds, limit)))
    if (fixed.length === 0 || nowSeconds - latest > lookBackSeconds) return undefined
    const before = this.#locate(domain, entries, latest - 1)
    if (before.length === 0) return undefined
    const earlier = this.#toLedger(before, false)
    if (earlier.key === key) return undefined
    const outcome = await this.#call(() => this.#reservations().change(earlier.key, entry, { do: 'look' }))
    return outcome.reservation && { id: toId(earlier, entry), outcome }
  }

  #toLedger(counters: readonly LocatedCounter[], shadow: boolean): Ledger {
    const checks = counters.map(({ check }) => (shadow ? { ...check, shadow } : check))
    const keys = checks.map(({ key }) => key)
    this.#hashTags ??= listHashTags()
    const tag = this.#hashTags[findHashSlot(keys[0] ?? '')]
    return { key: this.#toKey(`${tag}`, hashText(keys.join('\n'))), checks }
  }

  #toKey(tag: string, hash: string): string {
    return `${this.#options.cacheKeyPrefix}{${tag}}:reservations:${hash}`
  }

  async #change(id: string, change: ReservationChange) {
    const [tag = '', ledger = '', entry = '', ...others] = id.split('.')
    const isId = id.length <= maxIdLength && entry !== '' && others.length === 0
    if (!isId) {
      const found = id.length <= maxIdLength ? `'${id}'` : `a text of ${id.length} characters`
      throw new GrpcError('INVALID_ARGUMENT', `id: expected an id that Reserve returned, found ${found}`)
    }
    const outcome = await this.#call(() =>
      this.#reservations().change(this.#toKey(tag, ledger), entry, change),
    )
    this.#announce(outcome.decreased)
    const { reservation } = outcome
    if (reservation === undefined) {
      throw new GrpcError(
        'NOT_FOUND',
        `id: there is no reservation ${id}, or it ended more than 5 minutes ago`,
      )
    }
    return { ...outcome, reservation }
  }

  async #call(run: () => ReservationOutcome | Promise<ReservationOutcome>): Promise<ReservationOutcome> {
    this.#isUsed = true
    try {
      return await run()
    } catch (error) {
      if (error instanceof TooManyReservationsError) throw new GrpcError('RESOURCE_EXHAUSTED', error.message)
      if (error instanceof CountersError) throw new GrpcError('UNAVAILABLE', error.message)
      throw error
    }
  }
}

/** Returns `tag.hash.entry`. The tag and the hash come from the ledger's key. */
function toId({ key }: Ledger, entry: string): string {
  const [, tag, hash] = /\{(\w+)\}:reservations:(.*)$/.exec(key) ?? []
  return `${tag}.${hash}.${entry}`
}

function checkReserve({ domain, descriptor, amount, ttlMs, requestId }: ReserveRequest) {
  if (domain === '') throw invalid('domain: must not be empty')
  if (descriptor === undefined || descriptor.entries.length === 0) {
    throw invalid('descriptor.entries: must not be empty')
  }
  if (descriptor.limit !== undefined) throw invalid('descriptor.limit: must be absent')
  if (descriptor.hitsAddend !== undefined) throw invalid('descriptor.hits_addend: must be absent; use amount')
  if (amount < 1) throw invalid('amount: expected at least 1, found 0')
  const bytes = Buffer.byteLength(requestId)
  if (bytes > maxRequestIdBytes) {
    throw invalid(`request_id: expected at most ${maxRequestIdBytes} bytes, found ${bytes}`)
  }
  return { domain, entries: descriptor.entries, amount, ttlMs: checkTtl(ttlMs), requestId }
}

function checkTtl(ttlMs: number | undefined): number {
  if (ttlMs !== undefined && ttlMs >= 1 && ttlMs <= maxTtlMs) return Math.floor(ttlMs)
  const found = ttlMs === undefined ? 'none' : `${ttlMs / 1000}s`
  throw invalid(`ttl: expected 0.001s to ${maxTtlMs / 1000}s, found ${found}`)
}

function invalid(message: string): GrpcError {
  return new GrpcError('INVALID_ARGUMENT', message)
}

function ended(state: string): GrpcError {
  return new GrpcError('FAILED_PRECONDITION', `id: the reservation has ended: it is ${state}`)
}

/** Returns the answer for a reservation that this call or an earlier one made. */
function checkRepeated(
  { id, outcome }: { readonly id: string; readonly outcome: ReservationOutcome },
  amount: number,
): ReserveResponse {
  const { reservation } = outcome
  if (reservation === undefined) throw new Error('checkRepeated: there is no reservation')
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
