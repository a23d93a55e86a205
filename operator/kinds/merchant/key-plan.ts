import type { MerchantAccount } from '../../model.ts'
import type { StoredCredentials } from './credential-store.ts'

/**
 * The API keys in a merchant's Secret. A new key stays in a separate entry until the payments service knows
 * it. Therefore programs find only valid keys, and a crash loses no key.
 */
interface KeyState {
  /** The key that programs use. */
  readonly current: string | undefined
  /** The next key, which the payments service may not know yet. */
  readonly staged: string | undefined
}

const keyForm = /^tollway_[A-Za-z0-9_-]{43}$/

/** Returns the entry if it has the form of a key that the operator creates; otherwise undefined. */
function readKey(entry: string | undefined): string | undefined {
  return entry !== undefined && keyForm.test(entry) ? entry : undefined
}

export function readKeys(
  { secret }: Pick<MerchantAccount, 'secret'>,
  kept: Pick<StoredCredentials, 'entries'> | undefined,
): KeyState {
  const entries = kept?.entries ?? {}
  return {
    current: readKey(entries[secret.entries.apiKey]),
    staged: readKey(entries[stagedEntry({ secret })]),
  }
}

/**
 * Returns the name of the entry for the next key: `apiKey.next`, where `apiKey` is the name of the active
 * key's entry, with more `.next` if that is taken.
 */
export function stagedEntry({ secret: { entries } }: Pick<MerchantAccount, 'secret'>): string {
  const taken = new Set(Object.values(entries))
  let name = `${entries.apiKey}.next`
  while (taken.has(name)) name = `${name}.next`
  return name
}

interface NewKeyReason {
  readonly why: 'none' | 'asked' | 'age'
  /** How long earlier keys stay valid, in milliseconds. */
  readonly graceMs: number
}

interface KeyWishes {
  /** The value of the annotation that requests another key; empty without it. */
  readonly rotation: string
  readonly nowMs: number
}

/**
 * Returns why a new key is needed; undefined if none is. `none`: the Secret has no usable key. Anyone may
 * have the lost key, so all earlier keys become invalid at once. `asked`: the annotation has changed. `age`:
 * the key is older than `rotateAfterMs`.
 */
export function findRotationReason(
  account: Pick<MerchantAccount, 'app' | 'secret'>,
  kept: StoredCredentials | undefined,
  { rotation, nowMs }: KeyWishes,
): NewKeyReason | undefined {
  if (kept === undefined || readKeys(account, kept).current === undefined) return { why: 'none', graceMs: 0 }
  const { keyGraceMs: graceMs, rotateAfterMs = Number.POSITIVE_INFINITY } = account.app
  if (rotation !== '' && rotation !== kept.notes['key-rotation']) return { why: 'asked', graceMs }
  const sinceMs = Date.parse(kept.notes['key-since'] ?? '')
  return nowMs - sinceMs >= rotateAfterMs ? { why: 'age', graceMs } : undefined
}

/**
 * Returns the time until the key in force is due for replacement by its age, in milliseconds; Infinity if it
 * is never due.
 */
export function dueInMs(
  { app }: Pick<MerchantAccount, 'app'>,
  kept: Pick<StoredCredentials, 'notes'>,
  nowMs: number,
): number {
  const sinceMs = Date.parse(kept.notes['key-since'] ?? '')
  const dueMs = sinceMs + (app.rotateAfterMs ?? Number.POSITIVE_INFINITY) - nowMs
  return Number.isNaN(dueMs) ? Number.POSITIVE_INFINITY : Math.max(0, dueMs)
}

/** Returns how long keys that are older than the one in force stay valid, in milliseconds. */
export function readGrace({ notes }: Pick<StoredCredentials, 'notes'>): number {
  const graceMs = Number(notes['key-grace'] ?? 0)
  return Number.isSafeInteger(graceMs) && graceMs >= 0 ? graceMs : 0
}
