import type { Clock } from '@tollway/chassis/clock.ts'
import type { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { newId, type RandomBytes } from '../domain/ids.ts'
import type { Merchant } from '../domain/merchant.ts'
import type { OperationContext, Pricing } from '../domain/transaction/change.ts'
import type { TrailLimits } from '../domain/transaction/trail.ts'
import type { CardProcessor } from '../processor/processor.ts'
import type { Idempotency } from '../storage/idempotency/idempotency.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * What operations depend on. An operation is a function `(tx, payments, input)` that reads and writes only
 * through `tx`. To avoid deadlocks, it takes locks in the order idempotency key, transaction, merchant.
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
  /** The currencies that merchants can be paid out in. */
  readonly fundingCurrencies: readonly string[]
  /** How long after an authorisation its amount can be captured. */
  readonly authorisationLifetimeMs: number
  /** How long an authorisation can be without a stored payment before it is cancelled at the processor. */
  readonly authorisationSweepMs: number
  /** The addresses that webhooks may use. */
  readonly webhookPolicy: AddressPolicy
}

/** The maximum numbers of invitations in 24 hours, counted over all processes. */
interface InvitationLimits {
  readonly perApp: number
  readonly perMerchant: number
  /**
   * The limit for the mails to one person, of all merchants together. Above it, a person becomes a member
   * without a mail.
   */
  readonly perRecipient: number
}

interface Processors {
  readonly test: CardProcessor
  /** The processor of merchants that are not for tests; null if none is configured. */
  readonly live: CardProcessor | null
}

export function generateId({ clock, randomBytes }: Pick<Payments, 'clock' | 'randomBytes'>): string {
  return newId(clock.nowMs(), randomBytes)
}

/** Returns what domain functions such as `captureTransaction` need for a transaction of the merchant. */
export function operationContext(payments: Payments, merchant: Merchant): OperationContext {
  const { pricing, trailLimits, clock } = payments
  return { merchant, pricing, trailLimits, nowMs: clock.nowMs(), nextId: () => generateId(payments) }
}

/** Returns null if live payments are not configured. */
export function chooseProcessor({ processors }: Payments, { test }: { readonly test: boolean }) {
  return test ? processors.test : processors.live
}
