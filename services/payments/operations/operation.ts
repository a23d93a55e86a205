import type { Clock } from '@tollway/chassis/clock.ts'
import type { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { newId, type RandomBytes } from '../domain/ids.ts'
import type { Merchant } from '../domain/merchant/merchant.ts'
import type { OperationContext, Pricing } from '../domain/transaction/change.ts'
import type { TrailLimits } from '../domain/transaction/trail.ts'
import type { CardProcessor } from '../processor/processor.ts'
import type { Idempotency } from '../storage/idempotency/idempotency.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * The dependencies of operations: functions `(tx, payments, input)` that read and write through `tx`
 * alone, and take locks in the order idempotency key, transaction, merchant.
 */
export interface Payments {
  readonly storage: Storage
  readonly idempotency: Idempotency
  readonly processors: Processors
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly pricing: Pricing
  readonly trailLimits: TrailLimits
  readonly invitationLimits: InvitationLimits
  /** The currencies of payouts. */
  readonly fundingCurrencies: readonly string[]
  /** How long an authorisation can be captured. */
  readonly authorisationLifetimeMs: number
  /** An authorisation without a payment is cancelled at the processor after this time. */
  readonly authorisationSweepMs: number
  /** The addresses that webhooks may use. Without it: public addresses by https. */
  readonly webhookPolicy?: AddressPolicy
}

/** The invitations a day, each counted over all processes. */
interface InvitationLimits {
  readonly perApp: number
  readonly perMerchant: number
  /**
   * The invitations of one recipient by all merchants. Beyond the limit the person becomes a member without
   * an e-mail.
   */
  readonly perRecipient: number
}

interface Processors {
  readonly test: CardProcessor
  /** Null where payments of merchants that are not test accounts are not configured. */
  readonly live: CardProcessor | null
}

/** Returns a new id that contains the current time. */
export function generateId({ clock, randomBytes }: Pick<Payments, 'clock' | 'randomBytes'>): string {
  return newId(clock.nowMs(), randomBytes)
}

/** Returns the context of the domain's operations on a transaction of the merchant. */
export function operationContext(payments: Payments, merchant: Merchant): OperationContext {
  const { pricing, trailLimits, clock } = payments
  return { merchant, pricing, trailLimits, nowMs: clock.nowMs(), nextId: () => generateId(payments) }
}

/** Returns the processor of the merchant: test or live. Null when live payments are not configured. */
export function chooseProcessor({ processors }: Payments, { test }: { readonly test: boolean }) {
  return test ? processors.test : processors.live
}
