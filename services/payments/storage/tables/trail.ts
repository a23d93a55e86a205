import type { DisputeOutcome } from '../../domain/transaction/dispute.ts'
import type { TrailEntry, TrailKind, TrailTotals } from '../../domain/transaction/trail.ts'
import { type ListPage, type ListSource, listPage, type PageQuery } from '../list-page.ts'
import type { Tx } from '../storage.ts'
import { instantColumn, Table, type TableField, valueColumn } from '../table.ts'
import { fee } from './lines.ts'

/**
 * The trail of a transaction as one JSON value. It is read in the same statement as the transaction, so that
 * both are in the same state. Amounts are text, because they may exceed the range of a JSON number; times are
 * milliseconds since the epoch.
 */
export interface TrailJson {
  readonly entries: number
  readonly captures: number
  readonly captured: string
  readonly refunds: number
  readonly refunded: string
  readonly voids: number
  /** The newest entries, or all, in the order of time. */
  readonly newest: readonly EntryJson[]
}

interface EntryJson {
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

const entryJson = `json_build_object(
      'id', e.id, 'kind', e.kind, 'disputeId', e.dispute_id, 'outcome', e.dispute_outcome,
      'createdMs', round(extract(epoch FROM e.created) * 1000)::bigint,
      'amount', e.amount::text, 'balance', e.balance::text,
      'flat', e.fee_flat::text, 'rate', e.fee_rate::text,
      'descriptor', e.descriptor, 'lineId', e.line_id)`

function valueMoved(kind: 'capture' | 'refund'): string {
  return `coalesce(abs(sum(e.balance + e.fee_flat + e.fee_rate) FILTER (WHERE e.kind = '${kind}')), 0)::text`
}

/** @param newest the number of entries, the newest ones; null for all. The totals cover the whole trail */
export function selectTrail(transactionId: string, newest: number | null): string {
  return `SELECT json_build_object('entries', count(*),
      'captures', count(*) FILTER (WHERE e.kind = 'capture'), 'captured', ${valueMoved('capture')},
      'refunds', count(*) FILTER (WHERE e.kind = 'refund'), 'refunded', ${valueMoved('refund')},
      'voids', count(*) FILTER (WHERE e.kind = 'void'),
      'newest', (SELECT coalesce(json_agg(${entryJson} ORDER BY e.number), '[]') FROM (
        SELECT * FROM trail_entries WHERE transaction_id = ${transactionId}
        ORDER BY number DESC LIMIT ${newest ?? 'ALL'}) e))
    FROM trail_entries e WHERE e.transaction_id = ${transactionId}`
}

export function toTrail(
  transactionId: string,
  json: TrailJson,
): { readonly trail: readonly TrailEntry[]; readonly totals: TrailTotals } {
  const { entries, captures, captured, refunds, refunded, voids, newest } = json
  return {
    trail: newest.map(entry => toEntry(transactionId, entry)),
    totals: {
      entries,
      captures: { count: captures, value: BigInt(captured) },
      refunds: { count: refunds, value: BigInt(refunded) },
      voids,
    },
  }
}

function toEntry(transactionId: string, entry: EntryJson): TrailEntry {
  const { id, kind, disputeId, outcome, createdMs, descriptor, lineId, ...amounts } = entry
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
}

interface EntryRow {
  readonly transaction_id: string
  readonly entry: EntryJson
}

const ofTransaction: ListSource<EntryRow, TrailEntry> = {
  columns: `e.transaction_id, ${entryJson} AS entry`,
  from: 'trail_entries e',
  owner: 'e.transaction_id',
  id: 'e.id',
  position: 'e.number',
  item: ({ transaction_id, entry }) => toEntry(transaction_id, entry),
}

export function listTrail(tx: Tx, transactionId: string, page: PageQuery): Promise<ListPage<TrailEntry>> {
  return listPage(tx, ofTransaction, transactionId, page)
}

const dispute: TableField<TrailEntry['dispute']> = {
  columns: ['dispute_id', 'dispute_outcome'],
  write: value => [value?.id ?? null, value?.outcome ?? null],
  read: ({ dispute_id: id, dispute_outcome: outcome }) =>
    id === null ? null : { id: id as string, outcome: outcome as DisputeOutcome },
}

const trailEntries = new Table('trail_entries', {
  transactionId: valueColumn<string>('transaction_id'),
  number: valueColumn<number>('number'),
  id: valueColumn<string>('id'),
  kind: valueColumn<TrailKind>('kind'),
  dispute,
  createdMs: instantColumn('created'),
  amount: valueColumn<bigint>('amount'),
  balance: valueColumn<bigint>('balance'),
  fee,
  descriptor: valueColumn<string>('descriptor'),
  lineId: valueColumn<string | null>('line_id'),
})

const insert = trailEntries.insert()

/** Fails with the constraint `trail_entries_order` if another entry was added since the trail was read. */
export function appendTrail(tx: Tx, entry: TrailEntry, number: number): void {
  tx.send(insert.sql, insert.values({ ...entry, number }))
}
