import type { App } from '../../domain/merchant.ts'
import { presentSnapshot, presentTrailEntry } from '../../domain/present.ts'
import { accept, type Result } from '../../domain/rejections.ts'
import {
  type CaptureInput,
  captureTransaction,
  type OperationContext,
  type RefundInput,
  refundTransaction,
  type TransactionChange,
  type VoidInput,
  voidTransaction,
} from '../../domain/transaction/change.ts'
import type { TrailEntry } from '../../domain/transaction/trail.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import { saveChange } from '../../storage/changes.ts'
import { insertInstruction } from '../../storage/delivery/processor-instructions.ts'
import type { Tx } from '../../storage/storage.ts'
import { lockOwnTransaction } from '../accounts/access.ts'
import { type EventType, emitEvent } from '../events.ts'
import { operationContext, type Payments } from '../operation.ts'

export interface ChangeRequest<Input> {
  readonly app: App
  readonly transactionId: string
  readonly input: Input
}

type Decide<Input> = (
  transaction: Transaction,
  input: Input,
  context: OperationContext,
) => Result<TransactionChange>

/**
 * Returns an operation that locks a transaction, decides the change, and stores it with an instruction for
 * the processor. The change is final before the processor is called, because a processor cannot reject a part
 * of an authorised amount.
 */
function changing<Input>(decide: Decide<Input>, type: EventType) {
  return async (tx: Tx, payments: Payments, request: ChangeRequest<Input>): Promise<Result<Transaction>> => {
    const own = await lockOwnTransaction(tx, request.app, request.transactionId)
    if (!own.ok) return own
    const change = decide(
      own.value.transaction,
      request.input,
      operationContext(payments, own.value.merchant),
    )
    return change.ok ? accept(storeChange(tx, payments, change.value, type)) : change
  }
}

export const captureOwnTransaction = changing<CaptureInput>(captureTransaction, 'transaction.captured')

export const refundOwnTransaction = changing<RefundInput>(refundTransaction, 'transaction.refunded')

export const voidOwnTransaction = changing<VoidInput>(voidTransaction, 'transaction.voided')

/** Stores a change, its event and its instruction. The caller must have locked the transaction. */
export function storeChange(
  tx: Tx,
  payments: Payments,
  change: TransactionChange,
  type: EventType,
): Transaction {
  const { transaction, trailEntry } = change
  saveChange(tx, change)
  if (trailEntry !== null) insertInstruction(tx, transaction, trailEntry)
  emitTransactionEvent(tx, payments, { transaction, change: trailEntry, type })
  return transaction
}

interface TransactionEvent {
  readonly type: EventType
  readonly transaction: Transaction
  /** The new trail entry; null for a new transaction. */
  readonly change: TrailEntry | null
}

export function emitTransactionEvent(
  tx: Tx,
  payments: Pick<Payments, 'clock' | 'randomBytes'>,
  { transaction, change, type }: TransactionEvent,
): void {
  const { id: subjectId, merchantId } = transaction
  emitEvent(tx, payments, {
    type,
    merchantId,
    subjectId,
    data: {
      transaction: presentSnapshot(transaction),
      ...(change === null ? {} : { change: presentTrailEntry(change) }),
    },
  })
}
