import { type Dispute, type DisputeChange, raiseDispute, resolveDispute } from '../domain/dispute.ts'
import type { FraudAlert } from '../domain/fraud.ts'
import { derivedId } from '../domain/ids.ts'
import type { Merchant } from '../domain/merchant.ts'
import { presentFraudAlert } from '../domain/present.ts'
import { isRefused, type Refused } from '../domain/refusals.ts'
import type { Transaction } from '../domain/transaction.ts'
import type { CardProcessor, ProcessorEvent } from '../processor/processor.ts'
import { disputesOfTransactions, findDispute } from '../storage/disputes.ts'
import { findFraud, insertFraud } from '../storage/frauds.ts'
import { findMerchant } from '../storage/merchants.ts'
import { insertException } from '../storage/processor-exceptions.ts'
import { findTransactionId } from '../storage/processor-instructions.ts'
import { StorageError, type Tx } from '../storage/storage.ts'
import { lockTransaction } from '../storage/transactions.ts'
import { announce } from './announce.ts'
import { contextOf, nextId, type Payments } from './operation.ts'
import { saveDispute } from './save-dispute.ts'

/** How many events one round takes. */
export const maxEventsAtOnce = 100
/** An event whose cause is not known comes again; after this time it is an exception. */
const maxUnknownMs = 60 * 60 * 1000

/**
 * - `recorded`: booked now. `exceeded`: booked now, a dispute about more than could be refunded.
 * - `known`: booked before.
 * - `waiting`: its cause may be on its way into the books. The event stays with the processor.
 * - the others: stored as an exception, for an operator to clear up.
 */
export const eventOutcomes = [
  'recorded',
  'exceeded',
  'known',
  'waiting',
  'unknown',
  'refused',
  'failed',
] as const
export type EventOutcome = (typeof eventOutcomes)[number]

export interface RecordResult {
  readonly outcome: EventOutcome
  /** Why it could not be booked; empty otherwise. */
  readonly reason: string
  readonly isBooked: boolean
}

export interface RecordedEvent extends RecordResult {
  readonly event: ProcessorEvent
}

/**
 * Takes what the processor reports (frauds, disputes) into the books. Ids derive from the processor's own, and the
 * transaction is locked, so that an event that comes again, or to two processes at once, has one effect. An event
 * that cannot be booked is stored as an exception. Only what is booked or stored is acknowledged.
 *
 * @param test whether it is the processor of test accounts
 */
export async function recordEvents(
  payments: Payments,
  processor: CardProcessor,
  test: boolean,
): Promise<readonly RecordedEvent[]> {
  const events = await processor.pullEvents(maxEventsAtOnce)
  const recorded: RecordedEvent[] = []
  for (const event of events) recorded.push({ event, ...(await recordOrStore(payments, event, test)) })
  const taken = recorded.filter(({ outcome }) => outcome !== 'waiting').map(({ event }) => event.id)
  if (taken.length > 0) await processor.acknowledge(taken)
  return recorded
}

async function recordOrStore(
  payments: Payments,
  event: ProcessorEvent,
  test: boolean,
): Promise<RecordResult> {
  const { storage, clock } = payments
  const store = async (tx: Tx, { outcome, reason }: RecordResult) => {
    if (outcome !== 'unknown' && outcome !== 'refused' && outcome !== 'failed') return
    const exception = { id: nextId(payments), test, event, outcome, reason }
    await insertException(tx, exception, clock.nowMs())
  }
  try {
    return await storage.transaction(async tx => {
      const recorded = await recordEvent(tx, payments, event, test)
      await store(tx, recorded)
      return recorded
    })
  } catch (error) {
    // The database is away or busy: the event comes again. Any other error would come again with it, and keep
    // all events after it from being booked.
    if (error instanceof StorageError && error.code !== 'constraint' && error.code !== 'refused') throw error
    const failed = result('failed', (error as Error).message)
    await storage.transaction(tx => store(tx, failed))
    return failed
  }
}

const booked: ReadonlySet<EventOutcome> = new Set(['recorded', 'exceeded', 'known'])

function result(outcome: EventOutcome, reason = ''): RecordResult {
  return { outcome, reason, isBooked: booked.has(outcome) }
}

/** Books one event. Changes nothing unless the result says that it is booked. */
export async function recordEvent(
  tx: Tx,
  payments: Payments,
  event: ProcessorEvent,
  test: boolean,
): Promise<RecordResult> {
  const id = await findTransactionId(tx, event.reference, test)
  const transaction = id === undefined ? undefined : await lockTransaction(tx, id)
  const merchant = transaction && (await findMerchant(tx, transaction.merchantId))
  if (transaction === undefined || merchant === undefined) {
    return awaitCause(payments, event, `there is no transaction of ${event.reference}`)
  }
  switch (event.kind) {
    case 'fraud':
      return recordFraud(tx, payments, event, transaction)
    case 'dispute-raised':
      return recordDispute(tx, payments, event, { transaction, merchant })
    case 'dispute-resolved':
      return recordResolution(tx, payments, event, { transaction, merchant })
  }
}

/** The cause may be on its way into the books. */
function awaitCause({ clock }: Payments, { occurredMs }: ProcessorEvent, reason: string): RecordResult {
  return clock.nowMs() - occurredMs < maxUnknownMs ? result('waiting') : result('unknown', reason)
}

type EventOf<Kind extends ProcessorEvent['kind']> = Extract<ProcessorEvent, { kind: Kind }>

async function recordFraud(
  tx: Tx,
  payments: Payments,
  event: EventOf<'fraud'>,
  { id: transactionId, merchantId }: Transaction,
): Promise<RecordResult> {
  const id = derivedId('fraud', event.id)
  if ((await findFraud(tx, id)) !== undefined) return result('known')
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
  await announce(tx, payments, { type: 'fraud.reported', merchantId, subjectId: transactionId, data })
  return result('recorded')
}

interface Cause {
  readonly transaction: Transaction
  readonly merchant: Merchant
}

async function recordDispute(
  tx: Tx,
  payments: Payments,
  event: EventOf<'dispute-raised'>,
  { transaction, merchant }: Cause,
): Promise<RecordResult> {
  const id = derivedId('dispute', event.dispute)
  if ((await findDispute(tx, id)) !== undefined) return result('known')
  const { amount, currency, reason, dueMs } = event
  if (currency !== transaction.currency) {
    return result('refused', `the dispute is in ${currency}, the transaction in ${transaction.currency}`)
  }
  const earlier = await disputesOfTransactions(tx, [transaction.id])
  const input = { id, amount, reason, dueMs, earlier }
  const change = raiseDispute(transaction, input, contextOf(payments, merchant))
  return saveOutcome(tx, payments, change)
}

async function recordResolution(
  tx: Tx,
  payments: Payments,
  event: EventOf<'dispute-resolved'>,
  { transaction, merchant }: Cause,
): Promise<RecordResult> {
  const dispute: Dispute | undefined = await findDispute(tx, derivedId('dispute', event.dispute))
  if (dispute === undefined) {
    return awaitCause(payments, event, `there is no dispute ${event.dispute}`)
  }
  if (dispute.status === event.outcome) return result('known')
  if (dispute.status !== 'open') {
    return result('refused', `the dispute ${dispute.id} is ${dispute.status}, not ${event.outcome}`)
  }
  const change = resolveDispute(transaction, dispute, event.outcome, contextOf(payments, merchant))
  return saveOutcome(tx, payments, change)
}

async function saveOutcome(
  tx: Tx,
  payments: Payments,
  change: DisputeChange | Refused,
): Promise<RecordResult> {
  const saved = await saveDispute(tx, payments, change)
  if (!isRefused(saved)) return result(saved.status === 'open' && saved.excess > 0n ? 'exceeded' : 'recorded')
  const { message, fields } = saved.refusal
  return result('refused', fields[0]?.message ?? message)
}
