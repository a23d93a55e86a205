import type { MerchantInput } from '@tollway/payments/domain/merchant.ts'

/**
 * Creates merchants; implemented by a client of the payments service's provisioning port. A uid always
 * denotes the same merchant, so a repeated request gets the same answer and changes nothing.
 */
export interface Provisioner {
  /** Resolves if the service and its database answer. */
  check(signal: AbortSignal): Promise<void>
  /**
   * Creates or updates the merchant of a resource. Rejects if the service did not answer, or if a later
   * attempt may have another result.
   */
  provision(
    uid: string,
    request: ProvisionRequest,
    signal: AbortSignal,
  ): Promise<Provisioned | ProvisionRejection>
  /**
   * Closes the merchant of a resource: its keys become invalid, and it accepts nothing new. Also resolves if
   * there is no such merchant.
   */
  close(uid: string, signal: AbortSignal): Promise<void>
}

export interface ProvisionRequest {
  readonly profile: MerchantInput
  readonly appName: string | null
  /** The SHA-256 hash of the merchant's API key, in hex. The key itself is never sent. */
  readonly keyHash: string
  /** How long the app's keys other than this one stay valid; null leaves their expiry unchanged. */
  readonly otherKeysExpireInMs: number | null
  readonly users: readonly string[]
  readonly webhooks: readonly {
    readonly url: string
    readonly events: readonly string[]
    /** The signing secrets, newest first. */
    readonly secrets: readonly string[]
  }[]
  /**
   * An existing merchant to adopt, and the hash of one of its keys. The hash is null if that key was not
   * found; then only a merchant that was adopted before is accepted, and none is created.
   */
  readonly adopt?: { readonly merchantId: string; readonly keyHash: string | null }
}

export interface Provisioned {
  readonly merchantId: string
  readonly publicKey: string
  readonly appId: string
}

/** A rejection that a repetition of the same request gets again. */
export interface ProvisionRejection {
  readonly rejected: {
    /**
     * Why the request is rejected. `immutable`: it changes a field that cannot change. `closed`: the merchant
     * is closed. `key`: the key is no longer valid, or belongs to another app. `invalid`: any other reason.
     */
    readonly why: 'immutable' | 'closed' | 'key' | 'invalid'
    /** The problems of single fields; empty if no field is named. */
    readonly problems: readonly { readonly path: string; readonly message: string }[]
    readonly message: string
  }
}

/** The service did not answer, or gave an answer that does not fit the request. */
export class ProvisionError extends Error {
  override readonly name = 'ProvisionError'
}
