import { type AuthorisationInput, checkAuthorisation } from '../domain/authorise.ts'
import { chooseDescriptor } from '../domain/descriptor.ts'
import { isId } from '../domain/ids.ts'
import { isRefused, refuse, refuseProcessing } from '../domain/refusals.ts'
import type { Transaction } from '../domain/transaction.ts'
import type { CardInput } from '../processor/processor.ts'
import type { Once } from '../storage/idempotency.ts'
import { findMerchantByKey } from '../storage/merchants.ts'
import { requestFingerprint } from '../storage/sealed-answer.ts'
import type { Tx } from '../storage/storage.ts'
import { findTransaction } from '../storage/transactions.ts'
import { type AuthorisationPlan, authoriseOnce } from './authorise.ts'
import { type Outcome, type Payments, processorOf } from './operation.ts'

/** A payment that the payer makes, on the payment page. */
export interface PaymentRequest {
  /** The merchant's public key. */
  readonly merchantKey: string
  readonly input: AuthorisationInput
  /** The text of the payment link, shown in the dashboard; null without one. */
  readonly reference: string | null
  /** What the payer typed. Goes to the processor, and nowhere else. */
  readonly card: CardInput
  /** What answering a challenge has proved; null at first. */
  readonly tdsProof: string | null
  /**
   * Names this attempt to pay, with at least 128 random bits: the same attempt, sent twice, is one payment. After
   * a decline, the payer's next attempt has another name.
   */
  readonly attempt: string
}

export type PaymentOutcome =
  /** The payer's bank wants to be asked: then `answerChallenge`, and `pay` again with the proof. */
  | { readonly kind: 'challenge'; readonly challenge: string }
  /** Approved, or declined when the transaction has an error. */
  | { readonly kind: 'made'; readonly transaction: Transaction }

/**
 * Authenticates the payer where the bank asks for it, authorises the payment and records it. Refused with a
 * processing error are payments that cannot be recorded: of no merchant, or of no card.
 */
export async function pay(payments: Payments, request: PaymentRequest): Outcome<PaymentOutcome> {
  const planned = await payments.storage.read(tx => planPayment(tx, payments, request))
  if (isRefused(planned)) return planned
  const proof = request.tdsProof === null ? await authenticatePayer(planned, request) : request
  if (isRefused(proof) || 'kind' in proof) return proof
  const plan = { ...planned, source: { card: request.card, tdsProof: proof.tdsProof } }
  const once = await authoriseOnce(payments, {
    once: onceOf(plan, request),
    plan: async () => plan,
    present: ({ id }) => ({ status: 201, body: id }),
  })
  return isRefused(once) ? once : read(payments, once)
}

/** The payer's answer to a challenge: a proof for `pay`, or the processing error of one that failed. */
export async function answerChallenge(
  payments: Payments,
  { merchantKey, challenge, confirmed }: ChallengeAnswer,
): Outcome<{ readonly tdsProof: string }> {
  const merchant = await payments.storage.read(tx => findByKey(tx, merchantKey))
  if (isRefused(merchant)) return merchant
  const processor = processorOf(payments, merchant)
  if (processor === null) return refuseProcessing(27)
  const answer = await processor.answerChallenge(challenge, confirmed)
  return answer.result === 'full' ? { tdsProof: answer.proof } : refuseProcessing(answer.error)
}

export interface ChallengeAnswer {
  readonly merchantKey: string
  readonly challenge: string
  readonly confirmed: boolean
}

async function planPayment(
  tx: Tx,
  payments: Payments,
  { merchantKey, input, reference, card }: PaymentRequest,
): Outcome<AuthorisationPlan> {
  const merchant = await findByKey(tx, merchantKey)
  if (isRefused(merchant)) return merchant
  const refused = checkAuthorisation(merchant, input, payments.pricing)
  if (refused !== undefined) return refused
  const processor = processorOf(payments, merchant)
  if (processor === null) return refuseProcessing(27)
  return {
    merchant,
    processor,
    input,
    descriptor: chooseDescriptor(input.descriptor, merchant.descriptor),
    source: { card, tdsProof: null },
    known: null,
    recurring: false,
    reference,
  }
}

async function findByKey(tx: Tx, key: string) {
  const merchant = isId(key) ? await findMerchantByKey(tx, key) : undefined
  return merchant ?? refuseProcessing(26)
}

async function authenticatePayer(
  { processor, input }: AuthorisationPlan,
  { card }: PaymentRequest,
): Outcome<{ readonly tdsProof: string | null } | Extract<PaymentOutcome, { kind: 'challenge' }>> {
  const { amount, currency } = input
  const authentication = await processor.authenticate({ card, amount, currency })
  switch (authentication.result) {
    case 'none':
      return { tdsProof: null }
    case 'attempt':
      return { tdsProof: authentication.proof }
    case 'challenge':
      return { kind: 'challenge', challenge: authentication.challenge }
    case 'declined':
      return refuseProcessing(authentication.error)
  }
}

/** Nothing of the card is in the fingerprint: what is stored must not help to guess a number. */
function onceOf({ merchant }: AuthorisationPlan, { attempt, input, reference, tdsProof }: PaymentRequest) {
  const parts = [String(input.amount), input.currency, reference ?? '', tdsProof ?? '']
  return { scope: `pay:${merchant.id}`, key: attempt, fingerprint: requestFingerprint(attempt, parts) }
}

async function read(payments: Payments, once: Once): Outcome<PaymentOutcome> {
  if (once.kind === 'in-progress') return refuse('idempotency_in_progress')
  if (once.kind !== 'answered') return refuse('idempotency_mismatch')
  const id = once.answer.body
  const transaction = await payments.storage.read(tx => findTransaction(tx, id))
  if (transaction === undefined) throw new Error(`the payment ${id} was recorded, and is not there`)
  return { kind: 'made', transaction }
}
