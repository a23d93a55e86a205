import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { type CardDetails, expiryMs, type SavedCard } from './card.ts'
import type { Line } from './ledger/ledger.ts'
import { type App, type Balances, type Merchant, merchantFieldNames, type User } from './merchant.ts'
import type { Fee } from './money/fees.ts'
import { type Money, toJsonNumber } from './money/money.ts'
import type { Rejection } from './rejections.ts'
import type { Dispute } from './transaction/dispute.ts'
import type { FraudAlert } from './transaction/fraud.ts'
import { type ProcessingErrorCode, processingError } from './transaction/processing-errors.ts'
import type { TrailEntry } from './transaction/trail.ts'
import type { Transaction } from './transaction/transaction.ts'

/**
 * Returns the JSON of an app in answers of the API. In all functions of this file, times become text of ISO
 * 8601 in UTC, and amounts become numbers of minor units. Each field is named, so that a new field of a
 * record is not published by accident.
 */
export function presentApp({ id, name }: App): JsonObject {
  return { id, name }
}

/** Returns the answer to the creation of an app, the only answer that contains an API key. */
export function presentNewApp(app: App, key: string): JsonObject {
  return { ...presentApp(app), key }
}

export function presentMerchant(merchant: Merchant): JsonObject {
  return {
    id: merchant.id,
    key: merchant.key,
    created: isoDate(merchant.createdMs),
    ...Object.fromEntries(merchantFieldNames.map(name => [name, merchant[name]])),
    closed: merchant.closedMs === null ? null : isoDate(merchant.closedMs),
  }
}

export function presentBalances({ available, pending }: Balances): JsonObject {
  return { available: presentMoney(available), pending: pending.map(presentMoney) }
}

function presentMoney({ currency, amount }: Money): JsonObject {
  return { currency, amount: toJsonNumber(amount) }
}

export function presentUser({ id, email, createdMs }: User): JsonObject {
  return { id, email, created: isoDate(createdMs) }
}

/**
 * At most this many trail entries, the newest ones, are in an answer. GET /transactions/<id>/trail has all of
 * them.
 */
export const maxShownTrail = 100
/** At most this many trail entries, the newest, are in an event. */
const maxEventTrail = 10

export function presentTransaction(transaction: Transaction, shownTrail = maxShownTrail): JsonObject {
  return {
    id: transaction.id,
    merchantId: transaction.merchantId,
    test: transaction.test,
    created: isoDate(transaction.createdMs),
    currency: transaction.currency,
    amount: toJsonNumber(transaction.amount),
    descriptor: transaction.descriptor,
    pendingAmount: toJsonNumber(transaction.pendingAmount),
    capturedAmount: toJsonNumber(transaction.capturedAmount),
    refundedAmount: toJsonNumber(transaction.refundedAmount),
    voidedAmount: toJsonNumber(transaction.voidedAmount),
    disputedAmount: toJsonNumber(transaction.disputedAmount),
    card: presentCardDetails(transaction.card),
    ...(transaction.custom === null ? {} : { custom: transaction.custom }),
    ...(transaction.reference === null ? {} : { reference: transaction.reference }),
    ...(transaction.tds === null ? {} : { tds: transaction.tds }),
    recurring: transaction.recurring,
    successful: transaction.error === null,
    error: transaction.error === null ? false : presentProcessingError(transaction.error),
    trail: transaction.trail.slice(-shownTrail).map(presentTrailEntry),
    trailLength: transaction.totals.entries,
  }
}

/** Returns the transaction for an event, with a trail of limited length. */
export function presentSnapshot(transaction: Transaction): JsonObject {
  return presentTransaction(transaction, maxEventTrail)
}

/**
 * Returns a trail entry. As in the public API, it has one of the fields `capture`, `refund`, `void` and
 * `dispute`. A dispute has its id and outcome; the other fields are true.
 */
export function presentTrailEntry(entry: TrailEntry): JsonObject {
  return {
    id: entry.id,
    kind: entry.kind,
    ...presentTrailKind(entry),
    created: isoDate(entry.createdMs),
    amount: toJsonNumber(entry.amount),
    balance: toJsonNumber(entry.balance),
    fee: presentFee(entry.fee),
    descriptor: entry.descriptor,
    ...(entry.lineId === null ? {} : { lineId: entry.lineId }),
  }
}

function presentTrailKind({ kind, dispute }: TrailEntry): JsonObject {
  return { [kind]: dispute === null ? true : { id: dispute.id, [dispute.outcome]: true } }
}

function presentFee({ flat, rate, total }: Fee): JsonObject {
  return { flat: toJsonNumber(flat), rate: toJsonNumber(rate), total: toJsonNumber(total) }
}

function presentCardDetails({ bin, last4, expiry, scheme }: CardDetails): JsonObject {
  return { bin, last4, expiry: isoDate(expiryMs(expiry)), scheme }
}

export function presentCard({ id, merchantId, createdMs, card, notes }: SavedCard): JsonObject {
  return { id, merchantId, created: isoDate(createdMs), ...presentCardDetails(card), notes }
}

export function presentFraudAlert(fraud: FraudAlert): JsonObject {
  const { id, merchantId, transactionId, createdMs, reportedMs, reason } = fraud
  return {
    id,
    merchantId,
    transactionId,
    created: isoDate(createdMs),
    ...(reportedMs === null ? {} : { reported: isoDate(reportedMs) }),
    ...(reason === null ? {} : { reason }),
  }
}

export function presentDispute(dispute: Dispute): JsonObject {
  return {
    id: dispute.id,
    merchantId: dispute.merchantId,
    transactionId: dispute.transactionId,
    created: isoDate(dispute.createdMs),
    amount: toJsonNumber(dispute.amount),
    currency: dispute.currency,
    ...(dispute.excess === 0n ? {} : { excess: toJsonNumber(dispute.excess) }),
    status: dispute.status,
    reason: dispute.reason,
    due: dispute.dueMs === null ? null : isoDate(dispute.dueMs),
    resolved: dispute.resolvedMs === null ? null : isoDate(dispute.resolvedMs),
  }
}

/** Returns a line. As in the public API, a capture has `capture: true`, and a refund has `refund: true`. */
export function presentLine(line: Line): JsonObject {
  const { kind, amount, transactionId } = line
  return {
    id: line.id,
    merchantId: line.merchantId,
    test: line.test,
    created: isoDate(line.createdMs),
    balance: toJsonNumber(line.balance),
    fee: toJsonNumber(line.fee.total),
    kind,
    description: line.description,
    amount: { amount: toJsonNumber(amount.amount), currency: amount.currency },
    ...(transactionId === null ? {} : { transactionId }),
    ...(kind === 'capture' || kind === 'refund' ? { [kind]: true } : {}),
  }
}

function presentProcessingError(code: ProcessingErrorCode): JsonObject {
  const { message, client, merchant, retry } = processingError(code)
  return { code, message, client, merchant, retry }
}

/** Returns the body of a rejection. It is a list for `invalid_request`, as the public client expects. */
export function presentRejection({ code, message, fields, processingError: declined }: Rejection): Json {
  if (code === 'invalid_request') return fields.map(({ field, code, message }) => ({ field, code, message }))
  if (declined === null) return { code, message }
  return { code, message, error: presentProcessingError(declined.code) }
}

export function isoDate(ms: number): string {
  return new Date(ms).toISOString()
}
