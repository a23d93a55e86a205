import type { RandomBytes } from '@tollway/payments/domain/ids.ts'
import type { SecretStore } from '../certificates/secret-store.ts'
import { sharedSecrets } from './payments-workload.ts'

const secretBytes = 32

/**
 * Sees to it that what all processes of the payments service share is there: made once, and never changed,
 * for what was signed with it would count for nothing. Rejects with `code` 409 when somebody else was faster.
 */
export async function ensurePaymentsSecret(
  store: SecretStore,
  { name, randomBytes }: { readonly name: string; readonly randomBytes: RandomBytes },
  signal: AbortSignal,
): Promise<void> {
  const known = await store.get(name, signal)
  const missing = Object.keys(sharedSecrets).filter(entry => (known?.data[entry] ?? '') === '')
  if (missing.length === 0) return
  const made = missing.map(entry => [entry, Buffer.from(randomBytes(secretBytes)).toString('hex')])
  await store.put(name, { ...known?.data, ...Object.fromEntries(made) }, known, signal)
}
