import type { MerchantProfile } from '../../ir.ts'

/**
 * Creates merchants: the payments service, by a separate port. One uid is always one merchant: a repeated
 * request gets the same answer and changes nothing.
 */
export interface Provisioner {
  /**
   * Creates or updates the merchant of a resource. Rejects if the result is not known: without an answer, or
   * if a later attempt may have another result.
   */
  provision(
    uid: string,
    request: ProvisionRequest,
    signal: AbortSignal,
  ): Promise<Provisioned | ProvisionRejection>
  /** From then on its keys open nothing, and nothing new is accepted. One that never was is closed, too. */
  close(uid: string, signal: AbortSignal): Promise<void>
}

export interface ProvisionRequest {
  readonly profile: MerchantProfile
  readonly appName: string | null
  /** SHA-256 in hex of the API key of the merchant. The key itself is never sent. */
  readonly keyHash: string
  /** After this time the app's other keys open nothing; null leaves them as they are. */
  readonly otherKeysExpireInMs: number | null
  readonly users: readonly string[]
  /** All that the resource has. */
  readonly webhooks: readonly {
    readonly url: string
    readonly events: readonly string[]
    /** What signatures are made with, the newest first. */
    readonly secrets: readonly string[]
  }[]
  /**
   * A merchant that is there, and the hash of a key that has it. Null when that key is nowhere to be found:
   * then only a merchant that was adopted before is taken, and none is ever made.
   */
  readonly adopt?: { readonly merchantId: string; readonly keyHash: string | null }
}

export interface Provisioned {
  readonly merchantId: string
  readonly publicKey: string
  readonly appId: string
}

/** An answer that stays the same as long as the resource does. */
export interface ProvisionRejection {
  readonly rejected: {
    /**
     * `immutable`: it says otherwise than the merchant that it made. `closed`: its merchant is. `key`: that
     * key opens nothing any more, or is another app's. `invalid`: the rest.
     */
    readonly why: 'immutable' | 'closed' | 'key' | 'invalid'
    /** The fields, where it is about fields. */
    readonly problems: readonly { readonly path: string; readonly message: string }[]
    readonly message: string
  }
}

/** The service did not answer, or its answer does not fit the request. */
export class ProvisionError extends Error {
  override readonly name = 'ProvisionError'
}
