import { chooseDescriptor, type Merchant } from '../../domain/merchant.ts'
import { accept, type Result, rejectProcessing } from '../../domain/rejections.ts'
import {
  type AuthorisationInput,
  type AuthorisationResult,
  type CardSource,
  recordAuthorisation,
} from '../../domain/transaction/authorise.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import type { AuthorisationAnswer, AuthorisationSource, CardProcessor } from '../../processor/processor.ts'
import {
  type AnswerRecord,
  type IdempotentRequest,
  type IdempotentResult,
  toKeyId,
} from '../../storage/idempotency/answers.ts'
import { StorageError, type Tx } from '../../storage/storage.ts'
import { insertAttempt, removeAttempt } from '../../storage/tables/authorisation-attempts.ts'
import { insertTransaction } from '../../storage/tables/transactions.ts'
import { chooseProcessor, type Payments } from '../operation.ts'
import { emitTransactionEvent } from './change-transaction.ts'

export interface AuthorisationPlan {
  readonly merchant: Merchant
  readonly input: AuthorisationInput
  readonly source: AuthorisationSource
  /** The card, if the service knows it already; null if only the answer of the processor names it. */
  readonly known: CardSource | null
  readonly recurring: boolean
  /** The reference in the payment link; null without a payment link. */
  readonly reference: string | null
}

export interface AuthorisationWork {
  readonly once: IdempotentRequest
  /** Runs in the transaction that stores the attempt. After a rejection, the processor is not called. */
  readonly plan: (tx: Tx) => Promise<Result<AuthorisationPlan>>
  /** Returns the answer that is stored for the request, for an approved or a declined transaction. */
  readonly present: (transaction: Transaction) => AnswerRecord
}

/**
 * Authorises a payment and records the processor's answer, once for each idempotency key. Before the call to
 * the processor, an attempt is committed with the id of the future transaction; it is removed when the
 * transaction is stored. After a failure, a repetition of the request calls the processor again with the same
 * id. Without a repetition, `sweepAuthorisations` cancels the authorisation.
 */
export function authoriseOnce(
  payments: Payments,
  request: AuthorisationWork,
): Promise<Result<IdempotentResult>> {
  const { once, plan, present } = request
  return payments.idempotency.runOnceOutside(once, {
    async prepare(tx, reference) {
      const planned = await plan(tx)
      if (!planned.ok) return planned
      const processor = chooseProcessor(payments, planned.value.merchant)
      if (processor === null) return rejectProcessing(27)
      await storeAttempt(tx, payments, once, { plan: planned.value, reference })
      return accept({ plan: planned.value, processor })
    },
    perform: (reference, { plan: planned, processor }) => requestAuthorisation(processor, planned, reference),
    store: async (tx, outcome) =>
      outcome.ok ? accept(present(await record(tx, payments, outcome.value))) : outcome,
    discard: removeAttempt,
  })
}

function storeAttempt(
  tx: Tx,
  { clock, authorisationSweepMs }: Payments,
  once: IdempotentRequest,
  { plan, reference }: { readonly plan: AuthorisationPlan; readonly reference: string },
): Promise<void> {
  const { id: merchantId, test } = plan.merchant
  const { amount, currency } = plan.input
  const nowMs = clock.nowMs()
  const attempt = { reference, keyId: toKeyId(once), merchantId, test, amount, currency }
  return insertAttempt(tx, attempt, { nowMs, dueMs: nowMs + authorisationSweepMs })
}

interface Authorised {
  readonly id: string
  readonly plan: AuthorisationPlan
  readonly source: CardSource
  readonly result: AuthorisationResult
}

async function requestAuthorisation(
  processor: CardProcessor,
  plan: AuthorisationPlan,
  id: string,
): Promise<Result<Authorised>> {
  const { merchant, input, source, known } = plan
  const { amount, currency } = input
  const descriptor = chooseDescriptor(input.descriptor, merchant.descriptor)
  const answer = await retryUntilAnswered(() =>
    processor.authorise({ operationId: id, amount, currency, descriptor, source }),
  )
  const card = answer.card === null ? known : toCardSource(answer.card)
  if (card !== null) return accept({ id, plan, source: card, result: toResult(answer) })
  if (answer.approved) throw new Error(`the processor approved ${id} and did not name the card`)
  // A declined transaction can be recorded only if its card is known.
  return rejectProcessing(answer.error)
}

function toCardSource({ details, reference }: NonNullable<AuthorisationAnswer['card']>): CardSource {
  return { card: details, cardReference: reference }
}

function toResult(answer: AuthorisationAnswer): AuthorisationResult {
  if (!answer.approved) return { error: answer.error, processorReference: null, tds: null }
  return { error: null, processorReference: answer.reference, tds: answer.tds }
}

async function record(tx: Tx, payments: Payments, authorised: Authorised): Promise<Transaction> {
  const { id, plan, source, result } = authorised
  const { merchant, input, recurring, reference } = plan
  const transaction = recordAuthorisation({
    id,
    nowMs: payments.clock.nowMs(),
    merchant,
    input,
    source,
    result,
    recurring,
    reference,
    lifetimeMs: payments.authorisationLifetimeMs,
  })
  await insertTransaction(tx, transaction)
  await removeAttempt(tx, id)
  emitTransactionEvent(tx, payments, { transaction, change: null, type: 'transaction.created' })
  return transaction
}

/**
 * The most calls for one authorisation. All of them together must take less time than the lease of an
 * idempotency key, which is 1 minute.
 */
const maxTries = 3
const tryTimeoutMs = 15_000

/**
 * Resolves with the processor's answer. Repeats the same call after a failure, because the processor may have
 * carried it out.
 *
 * @throws StorageError `commit-unknown` if the processor does not answer. The marker of the idempotency key
 *   then keeps the id of the operation, and a repetition of the request after the lease makes the same call.
 */
async function retryUntilAnswered<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await withTimeout(call())
    } catch (cause) {
      if (tries < maxTries) continue
      throw new StorageError('commit-unknown', 'the processor has not answered', { cause })
    }
  }
}

async function withTimeout<T>(answer: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer in ${tryTimeoutMs} ms`)), tryTimeoutMs)
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
