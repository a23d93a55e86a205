import type { MerchantInput } from '@tollway/payments/domain/merchant/merchant.ts'

/**
 * Creates merchants: the payments service, through a separate port. One uid is always one merchant: a
 * repeated request gets the same answer and changes nothing.
 */
export interface Provisioner {
  /** Resolves if the service and its database answer. */
  check(signal: AbortSignal): Promise<void>
  /**
   * Creates or updates the merchant of a resource. Rejects if the result is not known: without an answer, or
   * if a later attempt may have another result.
   */
  provision(
    uid: string,
    request: ProvisionRequest,
    signal: AbortSignal,
  ): Promise<Provisioned | ProvisionRejection>
  /**
   * Closes the merchant of a resource. Its keys are no longer valid, and it accepts nothing new. A merchant
   * that does not exist is closed, too.
   */
  close(uid: string, signal: AbortSignal): Promise<void>
}

export interface ProvisionRequest {
  readonly profile: MerchantInput
  readonly appName: string | null
  /** SHA-256 in hex of the API key of the merchant. The key itself is never sent. */
  readonly keyHash: string
  /** The time after which the other keys of the app are no longer valid; null does not change them. */
  readonly otherKeysExpireInMs: number | null
  readonly users: readonly string[]
  /** All webhooks of the resource. */
  readonly webhooks: readonly {
    readonly url: string
    readonly events: readonly string[]
    /** The signing secrets, the newest first. */
    readonly secrets: readonly string[]
  }[]
  /**
   * An existing merchant, and the hash of one of its keys; null if that key was not found. Then only a
   * merchant that was adopted before is accepted, and none is created.
   */
  readonly adopt?: { readonly merchantId: string; readonly keyHash: string | null }
}

export interface Provisioned {
  readonly merchantId: string
  readonly publicKey: string
  readonly appId: string
}

/** A rejection. An unchanged request is rejected again. */
export interface ProvisionRejection {
  readonly rejected: {
    /**
     * `immutable`: a field differs that cannot change. `closed`: the merchant is closed. `key`: the key is
     * not valid any more, or belongs to another app. `invalid`: all other reasons.
     */
    readonly why: 'immutable' | 'closed' | 'key' | 'invalid'
    /** The problems of fields, if there are any. */
    readonly problems: readonly { readonly path: string; readonly message: string }[]
    readonly message: string
  }
}

/** The service did not answer, or its answer does not fit the request. */
export class ProvisionError extends Error {
  override readonly name = 'ProvisionError'
}
