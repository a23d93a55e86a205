import { newId } from '../domain/ids.ts'
import type { LedgerEntry, Line } from '../domain/ledger/ledger.ts'
import { payOut } from '../domain/ledger/payout.ts'
import { exampleMerchantInput, type Merchant } from '../domain/merchant.ts'
import { parseRateTable } from '../domain/money/exchange.ts'
import { parseFeeTable } from '../domain/money/fees.ts'
import { accept, type Rejected, type Result } from '../domain/rejections.ts'
import { recordAuthorisation } from '../domain/transaction/authorise.ts'
import {
  captureTransaction,
  expireTransaction,
  type OperationContext,
  type Pricing,
  refundTransaction,
  type TransactionChange,
  voidTransaction,
} from '../domain/transaction/change.ts'
import {
  type Dispute,
  type DisputeChange,
  type DisputeOutcome,
  raiseDispute,
  resolveDispute,
} from '../domain/transaction/dispute.ts'
import { processingErrorCodes } from '../domain/transaction/processing-errors.ts'
import type { Transaction } from '../domain/transaction/transaction.ts'

export const authorisationLifetimeMs = 7 * 24 * 60 * 60 * 1000

/** A merchant's whole book in memory, for tests. Only operations of the domain change it. */
export interface History {
  readonly merchant: Merchant
  readonly context: () => OperationContext
  readonly transactions: Transaction[]
  readonly disputes: Dispute[]
  readonly lines: Line[]
  readonly entries: LedgerEntry[]
  nowMs: number
}

export const merchantUnderTest: Merchant = {
  id: newId(0, count => new Uint8Array(count)),
  key: 'b1f1a2f0-0000-4000-8000-000000000000',
  createdMs: 0,
  ...exampleMerchantInput,
  name: 'Coffee & John',
  descriptor: 'Coffee & John',
  closedMs: null,
}

export function pricingUnderTest(
  fees: Parameters<typeof parseFeeTable>[0] = {},
  rates: Readonly<Record<string, string>> = { DKK: '7.4604', USD: '1.0875', JPY: '163.27', KWD: '0.3349' },
): Pricing {
  const feeTable = parseFeeTable(fees)
  const rateTable = parseRateTable('EUR', rates)
  if ('problems' in feeTable || 'problems' in rateTable) {
    throw new Error('the tables of the test are not valid')
  }
  return { fees: feeTable.table, rates: rateTable.table }
}

const trailLimits = { captures: 1_000, refunds: 1_000, voids: 1_000 }

export function createHistory(
  merchant: Merchant = merchantUnderTest,
  pricing: Pricing = pricingUnderTest(),
): History {
  let ids = 0
  const nextId = () => newId(0, count => Buffer.from((++ids).toString(16).padStart(count * 2, '0'), 'hex'))
  const history: History = {
    merchant,
    context: () => ({ merchant, pricing, trailLimits, nowMs: history.nowMs, nextId }),
    transactions: [],
    disputes: [],
    lines: [],
    entries: [],
    nowMs: 1_000_000,
  }
  return history
}

/** @param error the processing error of a declined authorisation; null for an approved one */
export function authorise(
  history: History,
  amount: bigint,
  currency: string,
  error: number | null = null,
): Transaction {
  const { merchant, nowMs, nextId } = history.context()
  const code = processingErrorCodes.find(one => one === error) ?? null
  const transaction = recordAuthorisation({
    id: nextId(),
    nowMs,
    merchant,
    input: { currency, amount, descriptor: null, custom: null },
    source: {
      card: { bin: '410000', last4: '0001', expiry: { year: 2066, month: 8 }, scheme: 'visa' },
      cardReference: { token: 'token', fingerprint: 'fingerprint' },
    },
    result: { error: code, processorReference: code === null ? 'reference' : null, tds: null },
    recurring: true,
    reference: null,
    lifetimeMs: authorisationLifetimeMs,
  })
  history.transactions.push(transaction)
  return transaction
}

export const operations = ['capture', 'refund', 'void', 'dispute', 'win', 'lose', 'expire'] as const
export type Operation = (typeof operations)[number]

/**
 * `win` and `lose` resolve the newest open dispute. Returns undefined if there is nothing to resolve or
 * expire.
 */
export function operate(
  history: History,
  index: number,
  operation: Operation,
  amount: bigint,
  currency: string | null = null,
): Result<TransactionChange> | undefined {
  const transaction = history.transactions[index]
  if (transaction === undefined) return undefined
  const outcome = perform(history, transaction, operation, amount, currency)
  if (outcome === undefined || !outcome.ok) return outcome
  history.transactions[index] = outcome.value.transaction
  if (outcome.value.line !== null) history.lines.push(outcome.value.line)
  if (outcome.value.ledgerEntry !== null) history.entries.push(outcome.value.ledgerEntry)
  if ('dispute' in outcome.value) keepDispute(history, outcome.value)
  return outcome
}

function perform(
  history: History,
  transaction: Transaction,
  operation: Operation,
  amount: bigint,
  currency: string | null,
): Result<TransactionChange | DisputeChange> | undefined {
  const context = history.context()
  const input = { amount, currency, descriptor: null }
  if (operation === 'capture') return captureTransaction(transaction, input, context)
  if (operation === 'refund') return refundTransaction(transaction, input, context)
  if (operation === 'void') return voidTransaction(transaction, input, context)
  if (operation === 'expire') {
    const change = expireTransaction(transaction, context)
    return change && accept(change)
  }
  if (operation === 'dispute') {
    const earlier = history.disputes.filter(({ transactionId }) => transactionId === transaction.id)
    return raiseDispute(transaction, { amount, reason: null, dueMs: null, earlier }, context)
  }
  return endDispute(history, transaction, operation === 'win' ? 'won' : 'lost')
}

function endDispute(
  history: History,
  transaction: Transaction,
  outcome: DisputeOutcome,
): Result<DisputeChange> | undefined {
  const dispute = history.disputes.findLast(
    ({ transactionId, status }) => transactionId === transaction.id && status === 'open',
  )
  return dispute && resolveDispute(transaction, dispute, outcome, history.context())
}

function keepDispute({ disputes }: History, { dispute }: DisputeChange): void {
  const index = disputes.findIndex(({ id }) => id === dispute.id)
  if (index === -1) disputes.push(dispute)
  else disputes[index] = dispute
}

export function balanceOf({ lines }: History): bigint {
  return lines.reduce((sum, line) => sum + line.balance, 0n)
}

export function payOutAll(history: History): Rejected | undefined {
  const payout = payOut(balanceOf(history), null, history.context())
  if (!payout.ok) return payout
  history.lines.push(payout.value.line)
  history.entries.push(payout.value.ledgerEntry)
  return undefined
}
