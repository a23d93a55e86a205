import type { SigningSecrets } from './signing-secrets.ts'
import type { Tokens } from './token-secrets.ts'

/** An entry of a Secret. */
export interface SecretPlace {
  readonly namespace: string
  readonly secret: string
  readonly key: string
}

/** The reason for which the values of an entry are not known. */
export type NoEntry =
  /** The reason, as the end of a sentence that begins with the Secret's name. */
  | { readonly missing: string }
  /** The operator may not read the Secret. The sentence says how to grant the right. */
  | { readonly forbidden: string }
  /** The entry has not been read yet. */
  | { readonly unknown: true }

/** The Secrets that routes name, each read by its name. */
export interface RouteSecrets {
  /**
   * Reads these places from now on, and no others. Resolves when each of them has been read once, and after a
   * while in any case.
   */
  follow(tokens: readonly SecretPlace[], signing?: readonly SecretPlace[]): Promise<void>
  /** Returns the tokens in a followed place. The result is the same object until a token changes. */
  tokens(place: SecretPlace): Tokens
  /**
   * Returns the signing secrets in a followed place. The result is the same object until a secret changes.
   */
  signing(place: SecretPlace): SigningSecrets
  /** Called after each change of `tokens` or `signing`. */
  onChange(listener: () => void): void
}
