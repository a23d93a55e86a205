import type { DisputeOutcome } from '../domain/dispute.ts'
import type { TrailEntry, TrailKind } from '../domain/trail.ts'
import { insertInto, toDate } from './statements.ts'
import type { Tx } from './storage.ts'

/**
 * A transaction's trail as one JSON value, so that it is read in the same statement, and thus in the same state,
 * as the transaction. Numbers that may be large are texts; times are milliseconds since the epoch.
 */
export interface TrailJson {
  readonly id: string
  readonly kind: TrailKind
  readonly disputeId: string | null
  readonly outcome: DisputeOutcome | null
  readonly createdMs: number
  readonly amount: string
  readonly balance: string
  readonly flat: string
  readonly rate: string
  readonly descriptor: string
  readonly lineId: string | null
}

/** @param transactionId a column or a parameter */
export function selectTrail(transactionId: string): string {
  return `SELECT coalesce(json_agg(json_build_object(
      'id', e.id, 'kind', e.kind, 'disputeId', e.dispute_id, 'outcome', e.dispute_outcome,
      'createdMs', round(extract(epoch FROM e.created) * 1000)::bigint,
      'amount', e.amount::text, 'balance', e.balance::text,
      'flat', e.fee_flat::text, 'rate', e.fee_rate::text,
      'descriptor', e.descriptor, 'lineId', e.line_id) ORDER BY e.number), '[]')
    FROM trail_entries e WHERE e.transaction_id = ${transactionId}`
}

export function trailOf(transactionId: string, trail: readonly TrailJson[]): readonly TrailEntry[] {
  return trail.map(({ id, kind, disputeId, outcome, createdMs, descriptor, lineId, ...amounts }) => {
    const flat = BigInt(amounts.flat)
    const rate = BigInt(amounts.rate)
    return {
      id,
      transactionId,
      kind,
      dispute: disputeId === null || outcome === null ? null : { id: disputeId, outcome },
      createdMs,
      amount: BigInt(amounts.amount),
      balance: BigInt(amounts.balance),
      fee: { flat, rate, total: flat + rate },
      descriptor,
      lineId,
    }
  })
}

const insert = insertInto('trail_entries', [
  'transaction_id',
  'number',
  'id',
  'kind',
  'dispute_id',
  'dispute_outcome',
  'created',
  'amount',
  'balance',
  'fee_flat',
  'fee_rate',
  'descriptor',
  'line_id',
])

/**
 * @param number how many entries the trail had before
 * @throws StorageError `constraint` `trail_entries_order` when it had more: somebody else appended meanwhile
 */
export async function appendTrail(tx: Tx, entry: TrailEntry, number: number): Promise<void> {
  await tx.query(insert, [
    entry.transactionId,
    number,
    entry.id,
    entry.kind,
    entry.dispute === null ? null : entry.dispute.id,
    entry.dispute === null ? null : entry.dispute.outcome,
    toDate(entry.createdMs),
    entry.amount,
    entry.balance,
    entry.fee.flat,
    entry.fee.rate,
    entry.descriptor,
    entry.lineId,
  ])
}
