import type { SigningSecrets } from './signing-secrets.ts'
import type { Tokens } from './token-secrets.ts'

/** An entry of a Secret. */
export interface SecretPlace {
  readonly namespace: string
  readonly secret: string
  readonly key: string
}

/** Why nothing is known of an entry. */
export type NoEntry =
  /** The reason, as the end of a sentence that begins with the Secret's name. */
  | { readonly missing: string }
  /** The Secret may not be read: what grants it, as a sentence. */
  | { readonly forbidden: string }
  /** It has not been read yet. */
  | { readonly unknown: true }

/** The Secrets that routes name, each read by its name. */
export interface RouteSecrets {
  /**
   * Reads these places from now on, and no others. Resolves when each of them has been read once, and after a
   * while in any case.
   */
  follow(tokens: readonly SecretPlace[], signing?: readonly SecretPlace[]): Promise<void>
  /** The tokens in a place that is followed. The same object while nothing has changed. */
  tokens(place: SecretPlace): Tokens
  /** The signing secrets in a place that is followed. The same object while nothing has changed. */
  signing(place: SecretPlace): SigningSecrets
  /** Called after each change of `tokens` or `signing`. */
  onChange(listener: () => void): void
}
