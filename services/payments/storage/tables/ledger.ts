import type { Account, EntryKind, LedgerEntry, Posting } from '../../domain/ledger/ledger.ts'
import type { Balances, Merchant } from '../../domain/merchant.ts'
import { planFor } from '../query-plan-settings.ts'
import { onlyRow, type Tx } from '../storage.ts'
import { instantColumn, type Row, Table, valueColumn } from '../table.ts'

const entries = new Table('ledger_entries', {
  id: valueColumn<string>('id'),
  merchantId: valueColumn<string>('merchant_id'),
  test: valueColumn<boolean>('test'),
  createdMs: instantColumn('created'),
  kind: valueColumn<EntryKind>('kind'),
  transactionId: valueColumn<string | null>('transaction_id'),
  disputeId: valueColumn<string | null>('dispute_id'),
  lineId: valueColumn<string | null>('line_id'),
})
const insert = entries.insert()

/** Inserts an entry and its postings in one statement. The database checks that the postings sum to zero. */
const insertEntry = `WITH entry AS (${insert.sql} RETURNING id, merchant_id)
  INSERT INTO ledger_postings (entry_id, number, merchant_id, account, currency, amount)
  SELECT entry.id, p.number, entry.merchant_id, p.account, p.currency, p.amount FROM entry,
    unnest($${insert.count + 1}::text[], $${insert.count + 2}::text[], $${insert.count + 3}::bigint[])
      WITH ORDINALITY AS p (account, currency, amount, number)`

/**
 * Stores an entry. The database transaction fails with the constraint `ledger_postings_zero` if the postings
 * do not sum to zero in each currency, and with `ledger_entries_posted` if there are fewer than two.
 */
export function postLedger(tx: Tx, entry: LedgerEntry): void {
  const { postings } = entry
  tx.send(insertEntry, [
    ...insert.values(entry),
    postings.map(posting => posting.account),
    postings.map(posting => posting.currency),
    postings.map(posting => String(posting.amount)),
  ])
}

/** Returns the balance, which cannot change while the caller has the merchant locked. */
export async function readBalance(tx: Tx, merchantId: string, currency: string): Promise<bigint> {
  const rows = await tx.query<{ balance: bigint }>(
    `SELECT coalesce(sum(amount), 0)::bigint AS balance FROM ledger_postings
     WHERE account = 'merchant' AND merchant_id = $1 AND currency = $2`,
    [merchantId, currency],
  )
  return onlyRow(rows).balance
}

interface BalanceRow {
  readonly merchant_id: string
  readonly is_pending: boolean
  readonly currency: string
  readonly amount: bigint
}

const selectBalances = `SELECT m.id AS merchant_id, false AS is_pending, m.currency,
    coalesce(posted.amount, 0)::bigint AS amount
    FROM unnest($1::uuid[], $2::text[]) AS m (id, currency), LATERAL (
      SELECT sum(p.amount) AS amount FROM ledger_postings p
      WHERE p.account = 'merchant' AND p.merchant_id = m.id AND p.currency = m.currency) AS posted
  UNION ALL
  SELECT merchant_id, true, currency::text, sum(pending_amount)::bigint
    FROM transactions WHERE merchant_id = ANY ($1::uuid[]) AND has_pending GROUP BY merchant_id, currency
  ORDER BY is_pending, currency`

/** Returns the balances of merchants, by merchant id, all from the same moment. */
export async function balancesOfMerchants(
  tx: Tx,
  merchants: readonly Pick<Merchant, 'id' | 'currency'>[],
): Promise<ReadonlyMap<string, Balances>> {
  const ids = merchants.map(({ id }) => id)
  const currencies = merchants.map(({ currency }) => currency)
  // Reads both balances in one statement, so that the amount of a concurrent capture is in exactly one of
  // them.
  const rows = await tx.query<BalanceRow>(selectBalances, [ids, currencies])
  const byMerchant = Map.groupBy(rows, row => row.merchant_id)
  return new Map([...byMerchant].map(([id, ofMerchant]) => [id, toBalances(ofMerchant)]))
}

function toBalances(rows: readonly BalanceRow[]): Balances {
  const toMoney = ({ currency, amount }: BalanceRow) => ({ currency, amount })
  return {
    available: toMoney(onlyRow(rows.filter(row => !row.is_pending))),
    pending: rows.filter(row => row.is_pending).map(toMoney),
  }
}

export async function merchantBalances(
  tx: Tx,
  merchant: Pick<Merchant, 'id' | 'currency'>,
): Promise<Balances> {
  return onlyRow([...(await balancesOfMerchants(tx, [merchant])).values()])
}

/** Returns one sum for each account and currency, of one merchant, or of all for null. */
export async function accountBalances(tx: Tx, merchantId: string | null): Promise<readonly Posting[]> {
  return tx.query<Posting>(
    `SELECT account, currency, sum(amount)::bigint AS amount FROM ledger_postings
     WHERE $1::uuid IS NULL OR merchant_id = $1 GROUP BY account, currency ORDER BY account, currency`,
    [merchantId],
  )
}

const counted = ['merchants', 'transactions', 'disputes', 'lines', 'entries'] as const
export type RecordCounts = Readonly<Record<(typeof counted)[number], bigint>>

export async function countBookRecords(tx: Tx): Promise<RecordCounts> {
  const columns = counted.map(name => {
    return `(SELECT count(*) FROM ${name === 'entries' ? 'ledger_entries' : name}) AS ${name}`
  })
  return onlyRow(await tx.query<RecordCounts>(`SELECT ${columns.join(', ')}`))
}

type EntryRow = Row & {
  readonly accounts: readonly Account[]
  readonly currencies: readonly string[]
  readonly amounts: readonly string[]
}

const selectEntries = `SELECT ${entries.columnsWithAlias('e')},
    array_agg(p.account ORDER BY p.number) AS accounts,
    array_agg(p.currency::text ORDER BY p.number) AS currencies,
    array_agg(p.amount::text ORDER BY p.number) AS amounts
  FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id`

export async function entriesOfLines(tx: Tx, lineIds: readonly string[]): Promise<readonly LedgerEntry[]> {
  const sql = `${selectEntries} WHERE e.line_id = ANY ($1::uuid[]) GROUP BY e.id`
  return (await tx.query<EntryRow>(sql, [lineIds])).map(toEntry)
}

/** Returns the ledger entries of these disputes that have no line: those that record a lost dispute. */
export async function hiddenEntriesOfDisputes(
  tx: Tx,
  disputeIds: readonly string[],
): Promise<readonly LedgerEntry[]> {
  const sql = `${selectEntries} WHERE e.dispute_id = ANY ($1::uuid[]) AND e.line_id IS NULL GROUP BY e.id`
  return (await tx.query<EntryRow>(sql, [disputeIds])).map(toEntry)
}

function toEntry(row: EntryRow): LedgerEntry {
  const postings = row.accounts.map((account, index) => ({
    account,
    currency: row.currencies[index] ?? '',
    amount: BigInt(row.amounts[index] ?? 0),
  }))
  return { ...entries.read(row), postings }
}

interface LedgerProblem {
  readonly rule: string
  readonly id: string
  readonly detail: string
}

/** The rules of the books. Each query returns the ids of the rows that break the rule, with details. */
const proofs: readonly (readonly [rule: string, sql: string])[] = [
  [
    'the postings of an entry sum up to zero in each currency',
    `SELECT entry_id AS id, currency || ' ' || sum(amount) AS detail
     FROM ledger_postings GROUP BY entry_id, currency HAVING sum(amount) <> 0`,
  ],
  [
    'postings to a merchant are in its currency',
    `SELECT p.entry_id AS id, p.currency || ' for ' || m.currency AS detail
     FROM ledger_postings p JOIN merchants m ON m.id = p.merchant_id
     WHERE p.account = 'merchant' AND p.currency <> m.currency`,
  ],
  [
    'the balance of a line is what its entry posted to the merchant',
    `SELECT l.id, l.balance || ' is not ' || coalesce(sum(p.amount), 0) AS detail
     FROM lines l LEFT JOIN ledger_entries e ON e.line_id = l.id
       LEFT JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'merchant'
     GROUP BY l.id HAVING l.balance <> coalesce(sum(p.amount), 0) OR count(e.id) = 0`,
  ],
  [
    'what was posted to a merchant has a line',
    `SELECT e.id, 'no line' AS detail FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id
     WHERE p.account = 'merchant' AND e.line_id IS NULL`,
  ],
  [
    'the amounts of a transaction are the sums of its trail',
    `SELECT t.id, t.captured_amount || ' captured, ' || t.refunded_amount || ' refunded' AS detail
     FROM transactions t LEFT JOIN trail_entries e ON e.transaction_id = t.id
     GROUP BY t.id HAVING t.captured_amount <> coalesce(sum(e.amount) FILTER (WHERE e.kind = 'capture'), 0)
       OR t.refunded_amount <> coalesce(sum(e.amount) FILTER (WHERE e.kind = 'refund'), 0)
       OR t.error IS NULL AND t.voided_amount <> coalesce(sum(e.amount) FILTER (WHERE e.kind = 'void'), 0)`,
  ],
  [
    'has_pending says whether an amount is pending',
    `SELECT id, pending_amount || ' pending' AS detail FROM transactions
     WHERE has_pending <> (pending_amount > 0)`,
  ],
  [
    'the disputed amount is that of disputes that run or were lost',
    `SELECT t.id, t.disputed_amount || ' is not ' || coalesce(sum(d.amount), 0) AS detail
     FROM transactions t LEFT JOIN disputes d ON d.transaction_id = t.id AND d.status <> 'won'
     GROUP BY t.id HAVING t.disputed_amount <> coalesce(sum(d.amount), 0)`,
  ],
  [
    'captures, refunds and disputes have the line that their trail names',
    `SELECT e.id, e.kind AS detail FROM trail_entries e LEFT JOIN lines l ON l.id = e.line_id
     WHERE e.kind <> 'void' AND (l.id IS NULL OR l.transaction_id IS DISTINCT FROM e.transaction_id)`,
  ],
]

/**
 * Returns the rows that break a rule of the books, at most `limit` for each rule. The transaction must have
 * the isolation level `repeatable read`, because the rules compare tables that other transactions may change
 * meanwhile.
 */
export async function findLedgerProblems(tx: Tx, limit: number): Promise<readonly LedgerProblem[]> {
  return planFor(tx, 'whole tables', async () => {
    const problems: LedgerProblem[] = []
    for (const [rule, sql] of proofs) {
      const rows = await tx.query<{ id: string; detail: string }>(`${sql} LIMIT $1`, [limit])
      for (const { id, detail } of rows) problems.push({ rule, id, detail })
    }
    return problems
  })
}
