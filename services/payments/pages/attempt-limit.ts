import type { Clock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'

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

/**
 * Limits the attempts of payments, because thieves of card numbers test them on payment pages with many small
 * payments.
 */
export class AttemptLimit {
  readonly #addresses: KeyedRateLimiter
  readonly #merchants: KeyedRateLimiter

  constructor({ perAddress, perMerchant }: AttemptsPerMinute, clock: Clock) {
    this.#addresses = new KeyedRateLimiter(perAddress, clock)
    this.#merchants = new KeyedRateLimiter(perMerchant, clock)
  }

  /**
   * Counts one attempt. An address over its limit takes nothing from the others at the merchant.
   *
   * @returns 0 when it may be made, else in how many milliseconds the next may
   */
  take({ address, merchantId }: Attempt): number {
    return this.#addresses.take(addressKey(address)) || this.#merchants.take(merchantId)
  }
}
