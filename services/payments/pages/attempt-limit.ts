import type { Clock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'

interface Attempt {
  /** The IP address of the payer, or of a proxy that is not trusted. */
  readonly address: string
  readonly merchantId: string
}

interface AttemptsPerMinute {
  /** The maximum for one address, with all merchants together. */
  readonly perAddress: number
  /** The maximum for one merchant, with all addresses together. */
  readonly perMerchant: number
}

/** Limits attempts to pay, because criminals test stolen card numbers with many small payments. */
export class AttemptLimit {
  readonly #addresses: KeyedRateLimiter
  readonly #merchants: KeyedRateLimiter

  constructor({ perAddress, perMerchant }: AttemptsPerMinute, clock: Clock) {
    this.#addresses = new KeyedRateLimiter(perAddress, clock)
    this.#merchants = new KeyedRateLimiter(perMerchant, clock)
  }

  /**
   * Counts one attempt. The attempts of an address above its limit do not count for the merchant.
   *
   * @returns 0 if the attempt is allowed, else the milliseconds until the next one is
   */
  take({ address, merchantId }: Attempt): number {
    return this.#addresses.take(addressKey(address)) || this.#merchants.take(merchantId)
  }
}
