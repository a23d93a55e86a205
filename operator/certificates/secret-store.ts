/** The Secrets of one namespace, by name. */
export interface SecretStore {
  /** Resolves with undefined if the Secret does not exist. */
  get(name: string, signal: AbortSignal): Promise<StoredSecret | undefined>
  /**
   * Sets these entries. Creates the Secret when `known` is undefined, else changes exactly the state that was
   * read. Rejects with `code` 409 when another writer was faster.
   */
  put(
    name: string,
    data: SecretData,
    known: StoredSecret | undefined,
    signal: AbortSignal,
  ): Promise<StoredSecret>
}

export interface StoredSecret {
  readonly data: SecretData
  /** The version of this state, which every change changes. */
  readonly version: string
}

/** Entries by name, as text. */
export type SecretData = Readonly<Record<string, string>>
