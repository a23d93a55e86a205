import { type Dispute, type DisputeChange, raiseDispute, resolveDispute } from '../domain/dispute.ts'
import type { FraudAlert } from '../domain/fraud.ts'
import { derivedId } from '../domain/ids.ts'
import type { Merchant } from '../domain/merchant.ts'
import { presentFraudAlert } from '../domain/present.ts'
import { isRefused, type Refused } from '../domain/refusals.ts'
import type { Transaction } from '../domain/transaction.ts'
import type { CardProcessor, ProcessorEvent } from '../processor/processor.ts'
import { findDispute } from '../storage/disputes.ts'
import { findFraud, insertFraud } from '../storage/frauds.ts'
import { findMerchant } from '../storage/merchants.ts'
import { findTransactionId } from '../storage/processor-instructions.ts'
import type { Tx } from '../storage/storage.ts'
import { lockTransaction } from '../storage/transactions.ts'
import { announce } from './announce.ts'
import { contextOf, type Payments } from './operation.ts'
import { saveDispute } from './save-dispute.ts'

/** How many events one round takes. */
export const maxEventsAtOnce = 100
/** An event whose cause is not known here is told again; after this time nobody waits for the cause. */
const maxUnknownMs = 60 * 60 * 1000

/** What became of an event. `waiting` ones stay with the processor. */
export type Recorded = 'recorded' | 'known' | 'waiting' | 'unknown' | 'refused'

export interface RecordedEvent {
  readonly event: ProcessorEvent
  readonly outcome: Recorded
  /** Why, of a refused one. */
  readonly reason: string
}

/**
 * Takes what the processor tells (frauds, disputes) into the books. Ids derive from the processor's own, and the
 * transaction is locked, so that an event that is told again, or to two processes at once, has one effect.
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
  for (const event of events) {
    const result = await payments.storage.transaction(tx => recordEvent(tx, payments, event, test))
    recorded.push({ event, ...result })
  }
  const taken = recorded.filter(({ outcome }) => outcome !== 'waiting').map(({ event }) => event.id)
  if (taken.length > 0) await processor.acknowledge(taken)
  return recorded
}

type Result = Omit<RecordedEvent, 'event'>

const result = (outcome: Recorded, reason = ''): Result => ({ outcome, reason })

async function recordEvent(
  tx: Tx,
  payments: Payments,
  event: ProcessorEvent,
  test: boolean,
): Promise<Result> {
  const id = await findTransactionId(tx, event.reference, test)
  const transaction = id === undefined ? undefined : await lockTransaction(tx, id)
  const merchant = transaction && (await findMerchant(tx, transaction.merchantId))
  if (transaction === undefined || merchant === undefined) return awaitCause(payments, event)
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
function awaitCause({ clock }: Payments, { occurredMs }: ProcessorEvent): Result {
  return result(clock.nowMs() - occurredMs < maxUnknownMs ? 'waiting' : 'unknown')
}

type EventOf<Kind extends ProcessorEvent['kind']> = Extract<ProcessorEvent, { kind: Kind }>

async function recordFraud(
  tx: Tx,
  payments: Payments,
  event: EventOf<'fraud'>,
  { id: transactionId, merchantId }: Transaction,
): Promise<Result> {
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
): Promise<Result> {
  const id = derivedId('dispute', event.dispute)
  if ((await findDispute(tx, id)) !== undefined) return result('known')
  const { amount, reason, dueMs } = event
  const change = raiseDispute(transaction, { id, amount, reason, dueMs }, contextOf(payments, merchant))
  return saveOutcome(tx, payments, change)
}

async function recordResolution(
  tx: Tx,
  payments: Payments,
  event: EventOf<'dispute-resolved'>,
  { transaction, merchant }: Cause,
): Promise<Result> {
  const dispute: Dispute | undefined = await findDispute(tx, derivedId('dispute', event.dispute))
  if (dispute === undefined) return awaitCause(payments, event)
  if (dispute.status === event.outcome) return result('known')
  const change = resolveDispute(transaction, dispute, event.outcome, contextOf(payments, merchant))
  return saveOutcome(tx, payments, change)
}

async function saveOutcome(tx: Tx, payments: Payments, change: DisputeChange | Refused): Promise<Result> {
  const saved = await saveDispute(tx, payments, change)
  if (!isRefused(saved)) return result('recorded')
  const { message, fields } = saved.refusal
  return result('refused', fields[0]?.message ?? message)
}
