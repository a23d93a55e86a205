import type { Posting } from '../domain/ledger/ledger.ts'
import { type Book, type BookFinding, verify } from '../domain/ledger/verify.ts'
import type { Merchant } from '../domain/merchant.ts'
import { storeVerification } from '../storage/last-verification.ts'
import { planFor } from '../storage/query-plan-settings.ts'
import type { Storage, Tx } from '../storage/storage.ts'
import { disputesOfTransactions } from '../storage/tables/disputes.ts'
import {
  accountBalances,
  countBookRecords,
  entriesOfLines,
  findLedgerProblems,
  hiddenEntriesOfDisputes,
  type RecordCounts,
  readBalance,
} from '../storage/tables/ledger.ts'
import { linesOfTransactions, listPayoutLines, sumOfLines } from '../storage/tables/lines.ts'
import { listAllMerchants } from '../storage/tables/merchants.ts'
import { listTransactionsInOrder } from '../storage/tables/transactions.ts'

export interface Verification {
  readonly counts: RecordCounts
  /** The sum of each account in each currency, over all merchants, in minor units. */
  readonly balances: readonly Posting[]
  /** The inconsistencies. `maxBookFindings` limits them approximately. */
  readonly findings: readonly BookFinding[]
}

/** After this many findings, further books are not verified. The other checks can still add findings. */
export const maxBookFindings = 1_000
const partSize = 500
const statementTimeoutMs = 30 * 60 * 1000

/**
 * Verifies the books of all merchants in one snapshot of the database, while other processes continue.
 * Applies `verify` to each merchant's book, the rules of `findLedgerProblems`, and checks that each balance
 * is the sum of its lines and that every record belongs to a merchant. Reads part by part, with only one part
 * in memory.
 */
export function verifyBooks(storage: Storage): Promise<Verification> {
  const options = { isolation: 'repeatable read', statementTimeoutMs } as const
  return storage.transaction(verifyAll, options)
}

/** The most findings that are stored, and the most characters of each message. */
const maxStored = 100
const maxStoredCharacters = 300

export async function storeResult(
  storage: Storage,
  { counts, findings }: Pick<Verification, 'counts' | 'findings'>,
  { beganMs, endedMs }: { readonly beganMs: number; readonly endedMs: number },
): Promise<void> {
  const records = Object.fromEntries(Object.entries(counts).map(([kind, count]) => [kind, Number(count)]))
  const shown = findings.slice(0, maxStored).map(({ merchantId, record, message }) => ({
    merchantId,
    record,
    message: message.slice(0, maxStoredCharacters),
  }))
  const result = { beganMs, endedMs, records, findings: findings.length, shown }
  await storage.transaction(tx => storeVerification(tx, result))
}

async function verifyAll(tx: Tx): Promise<Verification> {
  const { seen, findings } = await planFor(tx, 'parts of tables', () => replayAll(tx))
  const counts = await countBookRecords(tx)
  findings.push(...findOrphans(counts, seen))
  for (const { rule, id, detail } of await findLedgerProblems(tx, maxBookFindings)) {
    findings.push({ merchantId: null, record: id, message: `${detail}, against the rule that ${rule}` })
  }
  return { counts, balances: await accountBalances(tx, null), findings }
}

async function replayAll(tx: Tx): Promise<{ seen: RecordCounts; findings: BookFinding[] }> {
  const findings: BookFinding[] = []
  const seen = { merchants: 0n, transactions: 0n, disputes: 0n, lines: 0n, entries: 0n }
  for await (const merchants of parts(afterId => listAllMerchants(tx, afterId, partSize))) {
    for (const merchant of merchants) {
      seen.merchants += 1n
      for await (const book of readBookParts(tx, merchant)) {
        seen.transactions += BigInt(book.transactions.length)
        seen.disputes += BigInt(book.disputes.length)
        seen.lines += BigInt(book.lines.length)
        seen.entries += BigInt(book.entries.length)
        if (findings.length < maxBookFindings) findings.push(...verify(book).map(nameMerchant))
      }
      findings.push(...(await verifyBalance(tx, merchant)))
    }
  }
  return { seen, findings }
}

function nameMerchant({ merchantId, record, message }: BookFinding): BookFinding {
  return { merchantId, record: `${record} of merchant ${merchantId}`, message }
}

/** Yields parts that can be verified separately: transactions with all their records, then payouts. */
async function* readBookParts(tx: Tx, merchant: Merchant): AsyncGenerator<Book> {
  for await (const transactions of parts(after =>
    listTransactionsInOrder(tx, merchant.id, after, partSize),
  )) {
    const ids = transactions.map(({ id }) => id)
    const disputes = await disputesOfTransactions(tx, ids)
    const lines = await linesOfTransactions(tx, ids)
    const shown = await entriesOfLines(
      tx,
      lines.map(({ id }) => id),
    )
    const lost = disputes.filter(({ status }) => status === 'lost').map(({ id }) => id)
    const hidden = lost.length === 0 ? [] : await hiddenEntriesOfDisputes(tx, lost)
    yield { merchant, transactions, disputes, lines, entries: [...shown, ...hidden] }
  }
  for await (const lines of parts(after => listPayoutLines(tx, merchant.id, after, partSize))) {
    const entries = await entriesOfLines(
      tx,
      lines.map(({ id }) => id),
    )
    yield { merchant, transactions: [], disputes: [], lines, entries }
  }
}

async function* parts<T extends { readonly id: string }>(
  read: (afterId: string | null) => Promise<readonly T[]>,
): AsyncGenerator<readonly T[]> {
  let part = await read(null)
  while (part.length > 0) {
    yield part
    part = part.length < partSize ? [] : await read(part.at(-1)?.id ?? null)
  }
}

async function verifyBalance(tx: Tx, { id, currency }: Merchant): Promise<readonly BookFinding[]> {
  const posted = await readBalance(tx, id, currency)
  const shown = await sumOfLines(tx, id)
  if (posted === shown) return []
  const message = `its balance is ${posted}; its lines make it ${shown}`
  return [{ merchantId: id, record: `merchant ${id}`, message }]
}

/**
 * Returns a finding for each kind of which the database has more or fewer records than were verified: the
 * records that were not reached belong to no existing merchant or transaction.
 */
function findOrphans(counts: RecordCounts, seen: RecordCounts): readonly BookFinding[] {
  return Object.entries(counts)
    .map(([kind, count]): [string, bigint] => [kind, count - seen[kind as keyof RecordCounts]])
    .filter(([, missing]) => missing !== 0n)
    .map(([kind, missing]) => ({
      merchantId: null,
      record: kind,
      message: `${missing} of them belong to no existing transaction`,
    }))
}
