import type { LimitCheck } from '../admission/limit-check.ts'
import {
  type Ledger,
  limitTtl,
  type OpenReservations,
  type ReservationChange,
  type ReservationOutcome,
  type Reservations,
  TooManyReservationsError,
} from '../reservations.ts'
import type { DueLedger, LedgerIndexRun } from './ledger-index-script.ts'
import type { LimitsOfLedger, ReservationReply, ReservationRun, StoredOutcome } from './reservation-script.ts'

interface RedisReservationsOptions {
  /** Runs the script of reservations where the ledger is. Rejects with a `CountersError`. */
  readonly run: (run: ReservationRun) => Promise<ReservationReply>
  /** Runs the script of the index of ledgers where the index is. Rejects with a `CountersError`. */
  readonly runIndex: (run: LedgerIndexRun) => Promise<readonly DueLedger[]>
}

/**
 * This process remembers the limits of at most this many ledgers, and asks Redis for those of other ledgers.
 */
const maxKnownLedgers = 10_000

/**
 * Reservations in Redis. A ledger is in the slot of its limits, so that one script changes both. An index of
 * all ledgers, in a key of its own, lets any process end the reservations of processes that have stopped.
 */
export class RedisReservations implements Reservations {
  readonly #options: RedisReservationsOptions
  /** The limits of the ledgers that this process has used, the latest last. */
  readonly #checks = new Map<string, readonly LimitCheck[]>()

  constructor(options: RedisReservationsOptions) {
    this.#options = options
  }

  async reserve(
    { key, checks }: Ledger,
    entry: string,
    amount: number,
    ttlMs: number,
  ): Promise<ReservationOutcome> {
    const call = { do: 'reserve', amount, ttlMs: limitTtl(checks, ttlMs) } as const
    const outcome = await this.#runOutcome({ ledgerKey: key, checks, entry, call })
    if (outcome.reservation !== undefined) this.#remember(key, checks)
    if (outcome.isFirst) await this.#index(key, call.ttlMs)
    return outcome
  }

  async change(ledgerKey: string, entry: string, change: ReservationChange): Promise<ReservationOutcome> {
    const checks = await this.#findChecks(ledgerKey)
    if (checks === undefined) return { reservation: undefined, limits: [], decreased: [] }
    const call = change.do === 'extend' ? { ...change, ttlMs: limitTtl(checks, change.ttlMs) } : change
    const outcome = await this.#runOutcome({ ledgerKey, checks, entry, call })
    if (call.do === 'extend' && outcome.isFirst) await this.#index(ledgerKey, call.ttlMs)
    return outcome
  }

  async read(ledgerKey: string): Promise<OpenReservations> {
    const checks = (await this.#findChecks(ledgerKey)) ?? []
    return (await this.#run({ ledgerKey, checks, entry: '', call: { do: 'list' } })) as OpenReservations
  }

  async sweep(keyPrefix: string): Promise<readonly string[]> {
    const index = toIndexKey(keyPrefix)
    const due = await this.#options.runIndex({ index, call: { do: 'claim' } })
    const all: string[] = []
    for (const { ledgerKey, dueMicros } of due) {
      const { nextExpiryMs, decreased } = await this.read(ledgerKey)
      all.push(...decreased)
      const next = nextExpiryMs === undefined ? undefined : nextExpiryMs * 1000
      await this.#options.runIndex({ index, call: { do: 'move', ledgerKey, from: dueMicros, to: next } })
    }
    return all
  }

  /** Tells the index that a reservation of the ledger, the first to expire, expires after this time. */
  async #index(ledgerKey: string, ttlMs: number): Promise<void> {
    const index = toIndexKey(ledgerKey.slice(0, ledgerKey.indexOf('{')))
    await this.#options.runIndex({ index, call: { do: 'add', ledgerKey, ttlMs } })
  }

  async #findChecks(ledgerKey: string): Promise<readonly LimitCheck[] | undefined> {
    const known = this.#checks.get(ledgerKey)
    if (known !== undefined) return known
    const call = { do: 'limits' } as const
    const { checks } = (await this.#run({ ledgerKey, checks: [], entry: '', call })) as LimitsOfLedger
    if (checks !== undefined) this.#remember(ledgerKey, checks)
    return checks
  }

  #remember(ledgerKey: string, checks: readonly LimitCheck[]): void {
    this.#checks.delete(ledgerKey)
    this.#checks.set(ledgerKey, checks)
    if (this.#checks.size <= maxKnownLedgers) return
    const [oldest = ''] = this.#checks.keys()
    this.#checks.delete(oldest)
  }

  async #runOutcome(run: ReservationRun): Promise<StoredOutcome> {
    return (await this.#run(run)) as StoredOutcome
  }

  async #run(run: ReservationRun): Promise<ReservationReply> {
    const reply = await this.#options.run(run)
    if (reply instanceof TooManyReservationsError) throw reply
    return reply
  }
}

function toIndexKey(keyPrefix: string): string {
  return `${keyPrefix}{reservations}:ledgers`
}
