/** A machine identity. It has complete access to the merchants that it is associated with. */
export interface App {
  readonly id: string
  readonly name: string | null
  /** Milliseconds since the epoch. */
  readonly createdMs: number
}

/** One key of an app. An app has two of them while they are rotated. */
export interface AppKey {
  readonly appId: string
  /** See `hashApiKey`. The key itself is nowhere. */
  readonly hash: string
  readonly createdMs: number
  /** From then on the key opens nothing; null for one without an end. */
  readonly expiresMs: number | null
}

export function opens(key: AppKey, nowMs: number): boolean {
  return key.expiresMs === null || nowMs < key.expiresMs
}
