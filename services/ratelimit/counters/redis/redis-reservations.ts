import type { LimitCheck } from '../admission/limit-check.ts'
import { isSameLimit } from '../batching/admission-runs.ts'
import { CountersError } from '../counters.ts'
import {
  type Ledger,
  limitTtl,
  type OpenReservations,
  type RequestAssignment,
  type ReservationChange,
  type ReservationOutcome,
  type Reservations,
} from '../reservations.ts'
import { type DueLedger, type LedgerIndexRun, ledgersOfClaim } from './ledger-index-script.ts'
import type {
  AssignedLedger,
  LimitsOfLedger,
  ReservationReply,
  ReservationRun,
  StoredOutcome,
  SweptLedger,
} from './reservation-script.ts'

interface RedisReservationsOptions {
  /** Runs the script of reservations where the ledger is. Rejects with a `CountersError`. */
  readonly run: (run: ReservationRun) => Promise<ReservationReply>
  /** Runs the script of the index of ledgers where the index is. Rejects with a `CountersError`. */
  readonly runIndex: (run: LedgerIndexRun) => Promise<readonly DueLedger[]>
}

interface KnownLimits {
  /** The checks as JSON. */
  readonly limits: string
  readonly checks: readonly LimitCheck[]
}

/**
 * This process remembers the limits of at most this many ledgers, and asks Redis for those of other ledgers.
 */
const maxKnownLedgers = 10_000

/**
 * Reservations in Redis. A ledger is in the slot of its limits, so that one script changes both. An index of
 * all ledgers, in a key of its own, lets any process end the reservations of processes that have stopped.
 *
 * Calls return chained promises: `async` functions in their place make more of them, and take 6 to 8 % more of the
 * CPU of a Reserve and its Commit (`make bench ARGS=reserve-commit`).
 */
export class RedisReservations implements Reservations {
  readonly #options: RedisReservationsOptions
  /** The limits of the ledgers that this process has used, in the order of their first use. */
  readonly #known = new Map<string, KnownLimits>()
  /** Ledgers of which the index could not be told; the next sweep tells it. */
  readonly #unindexed = new Set<string>()

  constructor(options: RedisReservationsOptions) {
    this.#options = options
  }

  reserve(
    { key, checks }: Ledger,
    entry: string,
    amount: number,
    ttlMs: number,
  ): Promise<ReservationOutcome> {
    const known = this.#known.get(key)
    const limits =
      known !== undefined && areAlike(known.checks, checks) ? known.limits : JSON.stringify(checks)
    const call = { do: 'reserve', amount, ttlMs: limitTtl(checks, ttlMs), limits } as const
    return this.#change({ ledgerKey: key, checks, entry, call }).then(outcome => {
      if (outcome.reservation !== undefined) this.#remember(key, limits, checks)
      return outcome
    })
  }

  change(ledgerKey: string, entry: string, change: ReservationChange): Promise<ReservationOutcome> {
    const known = this.#known.get(ledgerKey)
    return known === undefined
      ? this.#changeUnknown(ledgerKey, entry, change)
      : this.#changeBy(known.checks, ledgerKey, entry, change)
  }

  async assign({ key, ledger, instead, ttlMs }: RequestAssignment): Promise<string> {
    const run = { ledgerKey: key, checks: [], entry: ledger, call: { do: 'assign', instead, ttlMs } } as const
    return ((await this.#options.run(run)) as AssignedLedger).assigned
  }

  async read(ledgerKey: string, listed: number): Promise<OpenReservations> {
    const checks = await this.#findChecks(ledgerKey)
    if (checks === undefined)
      return { count: 0, summed: 0, amount: 0, nextExpiryMs: undefined, first: [], decreased: [] }
    const run = { ledgerKey, checks, entry: '', call: { do: 'read', listed } } as const
    return (await this.#options.run(run)) as OpenReservations
  }

  async sweep(keyPrefix: string): Promise<readonly string[]> {
    const index = toIndexKey(keyPrefix)
    await Promise.all(Array.from(this.#unindexed, ledgerKey => this.#index(ledgerKey, 0)))
    const all: string[] = []
    for (let isMore = true; isMore; ) {
      const due = await this.#options.runIndex({ index, call: { do: 'claim' } })
      const swept = await Promise.all(due.map(ledger => this.#sweepLedger(index, ledger)))
      all.push(...swept.flat())
      isMore = due.length === ledgersOfClaim
    }
    return all
  }

  async #sweepLedger(index: string, { ledgerKey, dueMicros }: DueLedger): Promise<readonly string[]> {
    const checks = (await this.#findChecks(ledgerKey)) ?? []
    const run = { ledgerKey, checks, entry: '', call: { do: 'sweep' } } as const
    let swept = (await this.#options.run(run)) as SweptLedger
    const { decreased } = swept
    while (swept.isMoreDue) swept = (await this.#options.run(run)) as SweptLedger
    const call = { do: 'move', ledgerKey, from: dueMicros, to: swept.nextExpiryMicros } as const
    await this.#options.runIndex({ index, call })
    return decreased
  }

  async #changeUnknown(
    ledgerKey: string,
    entry: string,
    change: ReservationChange,
  ): Promise<ReservationOutcome> {
    const checks = await this.#findChecks(ledgerKey)
    if (checks === undefined) return { reservation: undefined, isRepeated: false, limits: [], decreased: [] }
    return this.#changeBy(checks, ledgerKey, entry, change)
  }

  #changeBy(
    checks: readonly LimitCheck[],
    ledgerKey: string,
    entry: string,
    change: ReservationChange,
  ): Promise<StoredOutcome> {
    const call = change.do === 'extend' ? { ...change, ttlMs: limitTtl(checks, change.ttlMs) } : change
    return this.#change({ ledgerKey, checks, entry, call })
  }

  #change(run: ReservationRun): Promise<StoredOutcome> {
    const changed = this.#options.run(run) as Promise<StoredOutcome>
    if (!('ttlMs' in run.call)) return changed
    const { ttlMs } = run.call
    // Whoever has the answer can rely on it that any process ends the reservation, if this one is killed now.
    return changed.then(outcome =>
      outcome.isUnindexed ? this.#index(run.ledgerKey, ttlMs).then(() => outcome) : outcome,
    )
  }

  /**
   * Tells the index that a reservation of the ledger expires after this time. If the index fails, the reservation
   * exists all the same, and the next sweep of this process tells it.
   */
  #index(ledgerKey: string, ttlMs: number): Promise<unknown> {
    const index = toIndexKey(ledgerKey.slice(0, ledgerKey.indexOf('{')))
    this.#unindexed.delete(ledgerKey)
    return this.#options
      .runIndex({ index, call: { do: 'add', ledgerKey, ttlMs } })
      .catch((error: unknown) => {
        if (!(error instanceof CountersError)) throw error
        if (this.#unindexed.size < maxKnownLedgers) this.#unindexed.add(ledgerKey)
      })
  }

  async #findChecks(ledgerKey: string): Promise<readonly LimitCheck[] | undefined> {
    const known = this.#known.get(ledgerKey)
    if (known !== undefined) return known.checks
    const run = { ledgerKey, checks: [], entry: '', call: { do: 'limits' } } as const
    const { limits } = (await this.#options.run(run)) as LimitsOfLedger
    if (limits === undefined) return undefined
    const checks = JSON.parse(limits) as readonly LimitCheck[]
    this.#remember(ledgerKey, limits, checks)
    return checks
  }

  #remember(ledgerKey: string, limits: string, checks: readonly LimitCheck[]): void {
    if (this.#known.get(ledgerKey)?.limits === limits) return
    this.#known.set(ledgerKey, { limits, checks })
    if (this.#known.size <= maxKnownLedgers) return
    const [oldest = ''] = this.#known.keys()
    this.#known.delete(oldest)
  }
}

/** Returns whether both lists have the same limits, of the same keys. */
function areAlike(some: readonly LimitCheck[], others: readonly LimitCheck[]): boolean {
  if (some.length !== others.length) return false
  for (let index = 0; index < some.length; index += 1) {
    const [one, other] = [some[index] as LimitCheck, others[index] as LimitCheck]
    if (one.key !== other.key || !isSameLimit(one, other)) return false
  }
  return true
}

function toIndexKey(keyPrefix: string): string {
  return `${keyPrefix}{reservations}:ledgers`
}
