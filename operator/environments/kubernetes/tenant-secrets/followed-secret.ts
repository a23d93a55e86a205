import { isDeepStrictEqual } from 'node:util'
import {
  hashTokens,
  readSigningSecrets,
  type SecretReference,
  type SigningSecrets,
  type Tokens,
} from '../../../kinds/animation-stream-route/route-secrets.ts'

/** The entries of a Secret; undefined if the Secret does not exist. */
export type SecretEntries = Readonly<Record<string, string>> | undefined

/** An entry, and what it is read as: tokens, or signing secrets. */
export interface SecretUse extends SecretReference {
  readonly use: 'tokens' | 'signing'
}

type Values = Tokens | SigningSecrets

const readers = { tokens: hashTokens, signing: readSigningSecrets }

/** The values that resources need of one Secret. A value that does not change stays the same object. */
export class FollowedSecret {
  /** Why the last read failed; empty if it succeeded. */
  problem = ''
  isReading = false
  /** What resources need of the Secret, by the ids that `toValueId` returns. */
  #uses: ReadonlyMap<string, SecretUse> = new Map()
  #values: ReadonlyMap<string, Values> = new Map()

  /** Returns whether a needed entry was never read. */
  get isUnread(): boolean {
    return [...this.#uses.keys()].some(id => !this.#values.has(id))
  }

  setUses(references: readonly SecretUse[]): void {
    this.#uses = new Map(references.map(reference => [toValueId(reference.use, reference), reference]))
  }

  /** Returns the values of an entry; undefined if it was never read. */
  find(reference: SecretReference, use: SecretUse['use']): Values | undefined {
    return this.#values.get(toValueId(use, reference))
  }

  /** Reads the values from these entries. Returns whether any value has changed. */
  setEntries(entries: SecretEntries): boolean {
    return this.#update(reference => readers[reference.use](entries, reference))
  }

  /**
   * Keeps the known values and adds how to grant the missing right. Returns whether any value has changed.
   */
  setForbidden(advice: string): boolean {
    return this.#update((_, before) => ({ ...pickValues(before), forbidden: advice }))
  }

  #update(next: (reference: SecretUse, before: Values | undefined) => Values): boolean {
    let hasChanged = false
    const values = Array.from(this.#uses, ([id, reference]): [string, Values] => {
      const before = this.#values.get(id)
      const now = next(reference, before)
      if (before !== undefined && isDeepStrictEqual(before, now)) return [id, before]
      hasChanged = true
      return [id, now]
    })
    this.#values = new Map(values)
    return hasChanged
  }
}

const toValueId = (use: SecretUse['use'], { key }: SecretReference) => `${use} ${key}`

function pickValues(values: Values | undefined) {
  if (values === undefined) return {}
  if ('hashes' in values) return { hashes: values.hashes }
  return 'secrets' in values ? { secrets: values.secrets } : {}
}
