/**
 * The store of the merchants' credentials: Secrets of a cluster, or files. It reads each by its name, and
 * never lists them.
 */
export interface CredentialStore {
  /** Resolves with undefined if no credentials exist. Rejects if they cannot be read. */
  get(reference: CredentialReference, signal: AbortSignal): Promise<StoredCredentials | undefined>
  /**
   * Creates the credentials when `known` is undefined; otherwise changes exactly the known state: it removes
   * the entries and notes in `content.remove`, sets those in `content`, and keeps all others. Rejects with
   * `code` 409 when the state has changed since.
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
  /** The resource that owns the credentials, and with which they are deleted. */
  readonly owner: { readonly name: string; readonly uid: string }
}

export interface StoredCredentials {
  /** Entries by name, as text. */
  readonly entries: Readonly<Record<string, string>>
  /** Notes beside the entries, which only the operator reads. */
  readonly notes: Readonly<Partial<Record<NoteName, string>>>
  /** Whether the credentials were created for exactly this resource. Others must not be changed. */
  readonly isOurs: boolean
  /** The version of this state, which every change changes. */
  readonly version: string
}

export interface NewCredentials {
  readonly entries: Readonly<Record<string, string>>
  readonly notes: Readonly<Partial<Record<NoteName, string>>>
  /** The names of the entries to remove. */
  readonly remove: readonly string[]
}

/** The notes about a key that outlive a crash. */
export type NoteName =
  /** The time since which the key is in force, in RFC 3339. */
  | 'key-since'
  /** The value of the annotation for whose rotation the key was created. */
  | 'key-rotation'
  /** How long earlier keys stay valid, in milliseconds. */
  | 'key-grace'
