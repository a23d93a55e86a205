import { isDeepStrictEqual } from 'node:util'
import {
  hashTokens,
  readSigningSecrets,
  type SecretReference,
  type SigningSecrets,
  type Tokens,
} from '../../../kinds/animation-stream-route/route-secrets.ts'

/** The entries of a Secret; undefined if it does not exist. */
export type SecretEntries = Readonly<Record<string, string>> | undefined

/** An entry, and what resources read from it: tokens, or signing secrets. */
export interface SecretUse extends SecretReference {
  readonly use: 'tokens' | 'signing'
}

type Values = Tokens | SigningSecrets

const readers = { tokens: hashTokens, signing: readSigningSecrets }

/** The values that resources need of one Secret. Equal values stay the same object. */
export class FollowedSecret {
  /** Why the last read failed; empty if it succeeded. */
  problem = ''
  isReading = false
  /** The references to the Secret, by use and key, as the values are. */
  #uses: ReadonlyMap<string, SecretUse> = new Map()
  #values: ReadonlyMap<string, Values> = new Map()

  /** Whether an entry that a resource names was never read. */
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

  /** Keeps the known values, with the advice for a Secret that may not be read. Returns likewise. */
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
