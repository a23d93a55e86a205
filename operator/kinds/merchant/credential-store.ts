/**
 * Stores the credentials of merchants, in Secrets of a cluster or in files. Reads each by its name, and never
 * lists them.
 */
export interface CredentialStore {
  /** Resolves with undefined if the credentials do not exist. Rejects if they cannot be read. */
  get(reference: CredentialReference, signal: AbortSignal): Promise<StoredCredentials | undefined>
  /**
   * Creates the credentials if `known` is undefined; otherwise changes them only if they are still at
   * `known.version`. A change removes the entries in `content.remove`, sets those in `content`, and keeps all
   * others. Rejects with `code` 409 when the credentials have changed since they were read.
   */
  put(
    reference: CredentialReference,
    content: NewCredentials,
    known: StoredCredentials | undefined,
    signal: AbortSignal,
  ): Promise<StoredCredentials>
}

export interface CredentialReference {
  readonly namespace: string
  readonly name: string
  /** The Merchant that owns the credentials. They are deleted with it. */
  readonly owner: { readonly name: string; readonly uid: string }
}

export interface StoredCredentials {
  /** The entries by name, as text. */
  readonly entries: Readonly<Record<string, string>>
  /** Notes that only the operator reads. */
  readonly notes: Readonly<Partial<Record<NoteName, string>>>
  /**
   * Whether the credentials were created for the `owner` of the reference. If not, they must not be changed.
   */
  readonly isOurs: boolean
  /** The version of the credentials. Every write changes it. */
  readonly version: string
}

export interface NewCredentials {
  readonly entries: Readonly<Record<string, string>>
  readonly notes: Readonly<Partial<Record<NoteName, string>>>
  readonly remove: readonly string[]
}

/** Notes about a key, which are stored so that they outlive a crash. */
export type NoteName =
  /** The time since which the key is in force, in RFC 3339. */
  | 'key-since'
  /** The value of the rotation annotation for which the key was created. */
  | 'key-rotation'
  /** How long earlier keys stay valid, in milliseconds. */
  | 'key-grace'
