import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'
import { CountersError } from './counters.ts'

/**
 * Counts amounts in the limits of a descriptor before it is known how much is used. The limits get an amount
 * back unless it is committed in time. `testing/reservations.contract.ts` tests both implementations.
 *
 * Each method is one atomic step among all processes that share the counters. It can be repeated without a
 * second effect as long as the reservation is remembered: until `endedMemoryMs` after its end. Before a
 * method does its work, it ends the reservations of the ledger that have expired. A method rejects with a
 * `CountersError` if the counters fail or do not answer in time; it may have had its effect then.
 */
export interface Reservations {
  /**
   * Counts the amount in all limits of the ledger if all of them admit it, otherwise in none. Returns the
   * reservation that has this entry already, if there is one, in whichever state it is.
   */
  reserve(
    ledger: Ledger,
    entry: string,
    amount: number,
    ttlMs: number,
  ): ReservationOutcome | Promise<ReservationOutcome>
  /**
   * Changes the reservation. Only some states allow it: `ReservationOutcome.reservation` has the state after
   * the call.
   */
  change(
    ledgerKey: string,
    entry: string,
    change: ReservationChange,
  ): ReservationOutcome | Promise<ReservationOutcome>
  /**
   * Stores for a time where a request reserves, unless that is known and is not `instead`. Returns what is
   * stored then.
   */
  assign(assignment: RequestAssignment): string | Promise<string>
  /**
   * Returns what is reserved in the ledger, with at most `listed` of the reservations that expire first.
   * `listed` is from 1 to `maxSummed`.
   */
  read(ledgerKey: string, listed: number): OpenReservations | Promise<OpenReservations>
  /**
   * Ends the reservations that have expired, also those of processes that have stopped. Without a sweep, the
   * reservations of a ledger end at its next call.
   *
   * @param keyPrefix the prefix of the keys of all ledgers
   * @returns the keys of limits that count less than before
   */
  sweep(keyPrefix: string): readonly string[] | Promise<readonly string[]>
}

/** The limits of one descriptor in their current windows. Their reservations are kept together. */
export interface Ledger {
  /** Names the ledger in the backend. In a Redis Cluster it is in the slot of the limits' keys. */
  readonly key: string
  /** The limits. Their hits are not used. */
  readonly checks: readonly LimitCheck[]
}

export interface RequestAssignment {
  /** Names the request in the backend. */
  readonly key: string
  /** The name of a ledger. */
  readonly ledger: string
  /** The name of the ledger in which the request has no reservation; empty if that is not known of any. */
  readonly instead: string
  readonly ttlMs: number
}

export type ReservationChange =
  /** An open or an expired reservation ends, and the limits count `actual` instead of what was reserved. */
  | { readonly do: 'commit'; readonly actual: number }
  /** An open reservation ends, and the limits get its amount back. */
  | { readonly do: 'release' }
  /** An open reservation expires after this time. */
  | { readonly do: 'extend'; readonly ttlMs: number }
  /** The reservation stays as it is. */
  | { readonly do: 'look' }

export interface Reservation {
  readonly state: 'open' | 'committed' | 'released' | 'expired'
  readonly amount: number
  /** What a committed reservation counts; 0 in any other state. */
  readonly actual: number
  /**
   * The Unix time in milliseconds at which the reservation expires. One that ended earlier would have expired
   * then.
   */
  readonly expiresAtMs: number
}

export interface ReservationOutcome {
  /** The reservation after the call; undefined if a limit rejected it, or if it is unknown. */
  readonly reservation: Reservation | undefined
  /** Whether an earlier call made the reservation. */
  readonly isRepeated: boolean
  /**
   * For each limit of the ledger, in order, whether it admits the amount, and what remains after the call.
   * Empty if the reservation is unknown.
   */
  readonly limits: readonly ReservationLimit[]
  /** The keys of limits that count less than before the call. */
  readonly decreased: readonly string[]
}

export interface ReservationLimit extends LimitOutcome {
  /**
   * The Unix time in milliseconds at which the limit has room for a rejected amount because reservations
   * expire; undefined if they would not suffice.
   */
  readonly roomAtMs?: number | undefined
}

export interface OpenReservations {
  readonly count: number
  /** The number of reservations whose amounts are summed: at most `maxSummed`, those that expire first. */
  readonly summed: number
  /** The sum of their amounts. */
  readonly amount: number
  /** When the first of them expires, in milliseconds of Unix time; undefined if there is none. */
  readonly nextExpiryMs: number | undefined
  /** Those that expire first, in this order. */
  readonly first: readonly OpenReservation[]
  /** The keys of limits that count less than before the call, because reservations have expired. */
  readonly decreased: readonly string[]
}

export interface OpenReservation extends Pick<Reservation, 'amount' | 'expiresAtMs'> {
  readonly entry: string
}

/** A read sums up at most this many amounts, because the backend does nothing else meanwhile. */
export const maxSummed = 1_000

/** How long a reservation is remembered after its end. */
export const endedMemoryMs = 300_000

/**
 * At most this many reservations of a ledger in Redis, or of all ledgers in memory, are remembered, open and ended
 * ones together.
 */
export const maxReservations = 1_000_000

/** A rejection reads as many reservations to find out when the limit has room; they may not suffice. */
export const readForRoom = 100

/** There are as many reservations as are allowed; the caller has to end some of them first. */
export class TooManyReservationsError extends CountersError {
  override readonly name = 'TooManyReservationsError'
}

/** Returns the time to live, which is at most the lease of a limit that has holds. */
export function limitTtl(checks: readonly LimitCheck[], ttlMs: number): number {
  const leases = checks
    .filter(({ algorithm }) => algorithm === 'Concurrency')
    .map(({ windowTicks, ticksPerSecond }) => (windowTicks / ticksPerSecond) * 1000)
  return Math.min(ttlMs, ...leases)
}
