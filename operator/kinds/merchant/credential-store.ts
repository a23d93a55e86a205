/**
 * The place of the merchants' credentials: Secrets of a cluster, or files. One at a time is read by its
 * name; they are never listed.
 */
export interface CredentialStore {
  /** Resolves with undefined if no credentials exist. Rejects if they cannot be read. */
  get(place: CredentialPlace, signal: AbortSignal): Promise<KeptCredentials | undefined>
  /**
   * Creates it when `known` is undefined, else changes exactly the state that is known: of it the entries and
   * notes that are in `content.remove` go, those in `content` are set, and all others stay. Rejects with
   * `code` 409 when there is another one by now.
   */
  put(
    place: CredentialPlace,
    content: NewCredentials,
    known: KeptCredentials | undefined,
    signal: AbortSignal,
  ): Promise<KeptCredentials>
}

export interface CredentialPlace {
  readonly namespace: string
  readonly name: string
  /** The resource whose it is, and with which it goes. */
  readonly owner: { readonly name: string; readonly uid: string }
}

export interface KeptCredentials {
  /** Entries by name, as text. */
  readonly entries: Readonly<Record<string, string>>
  /** Notes beside the entries, which only the operator reads. */
  readonly notes: Readonly<Partial<Record<NoteName, string>>>
  /** Whether it was created for this very resource. Others must not be changed. */
  readonly isOurs: boolean
  /** Of this state: another one has another version. */
  readonly version: string
}

export interface NewCredentials {
  readonly entries: Readonly<Record<string, string>>
  readonly notes: Readonly<Partial<Record<NoteName, string>>>
  /** Names of entries. */
  readonly remove: readonly string[]
}

/** All that has to be remembered of a key over a crash. */
export type NoteName =
  /** When it came into force, in RFC 3339. */
  | 'key-since'
  /** The wish for a rotation that it fulfils. */
  | 'key-rotation'
  /** How long the keys before it stay valid, in milliseconds. */
  | 'key-grace'
