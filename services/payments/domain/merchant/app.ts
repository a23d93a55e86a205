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
  /** The time from which the key is rejected; null for a key that does not expire. */
  readonly expiresMs: number | null
}

export function opens(key: AppKey, nowMs: number): boolean {
  return key.expiresMs === null || nowMs < key.expiresMs
}
