import { derivedId } from '../../domain/ids.ts'
import { presentFraudAlert } from '../../domain/present.ts'
import type { Result } from '../../domain/rejections.ts'
import {
  type Dispute,
  type DisputeChange,
  raiseDispute,
  resolveDispute,
} from '../../domain/transaction/dispute.ts'
import type { FraudAlert } from '../../domain/transaction/fraud.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import type { ProcessorEvent } from '../../processor/processor.ts'
import { type StoredOutcome, storedOutcomes } from '../../storage/delivery/processor-exceptions.ts'
import { findTransactionId } from '../../storage/delivery/processor-instructions.ts'
import type { Tx } from '../../storage/storage.ts'
import { disputesOfTransactions, findDispute } from '../../storage/tables/disputes.ts'
import { findFraud, insertFraud } from '../../storage/tables/frauds.ts'
import { lockWithMerchant, type TransactionWithMerchant } from '../accounts/access.ts'
import { emitEvent } from '../events.ts'
import { operationContext, type Payments } from '../operation.ts'
import { saveDispute } from '../transactions/disputes.ts'

/** How long an event waits for the record that it names. After this time, the outcome is `unknown`. */
const maxUnknownMs = 60 * 60 * 1000

/**
 * `recorded`: the event was booked now. `exceeded`: a dispute was booked now, for more than could be
 * refunded. `known`: the event was booked before.
 */
const bookedOutcomes = ['recorded', 'exceeded', 'known'] as const
export const eventOutcomes = [...bookedOutcomes, ...storedOutcomes] as const

export type BookingResult = Booked | Unbooked

interface Booked {
  readonly isBooked: true
  readonly outcome: (typeof bookedOutcomes)[number]
  readonly reason: ''
}

interface Unbooked {
  readonly isBooked: false
  readonly outcome: StoredOutcome
  readonly reason: string
}

function booked(outcome: Booked['outcome']): Booked {
  return { isBooked: true, outcome, reason: '' }
}

export function unbooked(outcome: StoredOutcome, reason: string): Unbooked {
  return { isBooked: false, outcome, reason }
}

/** An event in which `findEventProblem` found no problem. */
export interface ReceivedEvent {
  readonly event: ProcessorEvent
  /** Whether the event comes from the processor of test merchants. */
  readonly test: boolean
  /** When the event was first received, in milliseconds since the epoch. */
  readonly seenMs: number
}

/**
 * Books an event. Changes nothing unless `isBooked` of the result is true. A repeated event, or one that two
 * processes receive, has one effect, because ids are derived from the processor's ids and the transaction is
 * locked.
 */
export async function bookEvent(
  tx: Tx,
  payments: Payments,
  { event, test, seenMs }: ReceivedEvent,
): Promise<BookingResult> {
  const id = await findTransactionId(tx, event.reference, test)
  const cause = id === undefined ? undefined : await lockWithMerchant(tx, id)
  if (cause === undefined) {
    return withoutCause(payments, seenMs, `there is no transaction of ${event.reference}`)
  }
  switch (event.kind) {
    case 'fraud':
      return bookFraud(tx, payments, event, cause.transaction)
    case 'dispute-raised':
      return bookDispute(tx, payments, event, cause)
    case 'dispute-resolved':
      return bookResolution(tx, payments, event, { ...cause, seenMs })
  }
}

/**
 * Returns `waiting` until `maxUnknownMs` after the event was first received, because the record that it names
 * may still be booked; then `unknown`. The event's own time does not count, because all events are old after
 * an outage of the processor.
 */
function withoutCause({ clock }: Payments, seenMs: number, reason: string): BookingResult {
  return unbooked(clock.nowMs() - seenMs < maxUnknownMs ? 'waiting' : 'unknown', reason)
}

type EventOf<Kind extends ProcessorEvent['kind']> = Extract<ProcessorEvent, { kind: Kind }>

async function bookFraud(
  tx: Tx,
  payments: Payments,
  event: EventOf<'fraud'>,
  { id: transactionId, merchantId }: Transaction,
): Promise<BookingResult> {
  const id = derivedId('fraud', event.id)
  const known = await findFraud(tx, id)
  if (known !== undefined) {
    return known.transactionId === transactionId ? booked('known') : onAnotherTransaction(`fraud ${event.id}`)
  }
  const fraud: FraudAlert = {
    id,
    merchantId,
    transactionId,
    createdMs: payments.clock.nowMs(),
    reportedMs: event.occurredMs,
    reason: event.reason,
  }
  await insertFraud(tx, fraud)
  const data = { fraud: presentFraudAlert(fraud) }
  emitEvent(tx, payments, { type: 'fraud.reported', merchantId, subjectId: transactionId, data })
  return booked('recorded')
}

function onAnotherTransaction(what: string): BookingResult {
  return unbooked('refused', `the books have the ${what} on another transaction`)
}

async function bookDispute(
  tx: Tx,
  payments: Payments,
  event: EventOf<'dispute-raised'>,
  { transaction, merchant }: TransactionWithMerchant,
): Promise<BookingResult> {
  const id = derivedId('dispute', event.dispute)
  const { amount, currency, reason, dueMs } = event
  const known = await findDispute(tx, id)
  if (known !== undefined) {
    if (known.transactionId !== transaction.id) return onAnotherTransaction(`dispute ${event.dispute}`)
    if (known.amount === amount && known.currency === currency) return booked('known')
    const inBooks = `${known.amount} ${known.currency}`
    return unbooked('refused', `the books have the dispute ${event.dispute} with ${inBooks}`)
  }
  if (currency !== transaction.currency) {
    return unbooked('refused', `the dispute is in ${currency}, the transaction in ${transaction.currency}`)
  }
  const earlier = await disputesOfTransactions(tx, [transaction.id])
  const input = { id, amount, reason, dueMs, earlier }
  const change = raiseDispute(transaction, input, operationContext(payments, merchant))
  return saveOutcome(tx, payments, change)
}

async function bookResolution(
  tx: Tx,
  payments: Payments,
  event: EventOf<'dispute-resolved'>,
  { transaction, merchant, seenMs }: TransactionWithMerchant & Pick<ReceivedEvent, 'seenMs'>,
): Promise<BookingResult> {
  const dispute: Dispute | undefined = await findDispute(tx, derivedId('dispute', event.dispute))
  if (dispute === undefined) {
    return withoutCause(payments, seenMs, `there is no dispute ${event.dispute}`)
  }
  if (dispute.transactionId !== transaction.id) return onAnotherTransaction(`dispute ${event.dispute}`)
  if (dispute.status === event.outcome) return booked('known')
  if (dispute.status !== 'open') {
    return unbooked('refused', `the dispute ${dispute.id} is ${dispute.status}, not ${event.outcome}`)
  }
  const change = resolveDispute(transaction, dispute, event.outcome, operationContext(payments, merchant))
  return saveOutcome(tx, payments, change)
}

async function saveOutcome(
  tx: Tx,
  payments: Payments,
  change: Result<DisputeChange>,
): Promise<BookingResult> {
  const saved = await saveDispute(tx, payments, change)
  if (saved.ok)
    return booked(saved.value.status === 'open' && saved.value.excess > 0n ? 'exceeded' : 'recorded')
  const { message, fields } = saved.rejection
  return unbooked('refused', fields[0]?.message ?? message)
}
