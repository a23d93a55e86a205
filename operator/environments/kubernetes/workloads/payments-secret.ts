import type { RandomBytes } from '@tollway/payments/domain/ids.ts'
import type { SecretStore } from '../../../certificates/secret-store.ts'
import { sharedSecrets } from '../../../services/payments/cluster-payments-workload.ts'

const secretBytes = 32

/**
 * Creates the secrets that all processes of the payments service share, if they do not exist. Existing ones
 * are never changed, because their signatures would become invalid. Rejects with `code` 409 if another writer
 * was faster.
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
