import type { Clock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'

/**
 * Limits the attempts of payments, because thieves of card numbers test them on payment pages with many small
 * payments.
 */
export interface AttemptLimit {
  /**
   * Counts one attempt.
   *
   * @returns 0 when it may be made, else in how many milliseconds the next may
   */
  take(attempt: Attempt): number
}

interface Attempt {
  /** The payer's, as far as it is known. */
  readonly address: string
  readonly merchantId: string
}

export interface AttemptsPerMinute {
  /** The limit of one address for all merchants together. */
  readonly perAddress: number
  /** The limit of one merchant for all addresses together. */
  readonly perMerchant: number
}

export function createAttemptLimit(
  { perAddress, perMerchant }: AttemptsPerMinute,
  clock: Clock,
): AttemptLimit {
  const addresses = new KeyedRateLimiter(perAddress, clock)
  const merchants = new KeyedRateLimiter(perMerchant, clock)
  return {
    /** One address that is over its limit takes nothing from the others at the merchant. */
    take: ({ address, merchantId }) => addresses.take(addressKey(address)) || merchants.take(merchantId),
  }
}
