import { isConflict } from '../api/connection/api-error.ts'
import type { secretAccess } from '../api/secrets.ts'

/**
 * Adds the installation's owner to the operator's Secrets that lack it, which an earlier version created with
 * the operator's Deployment as the owner. The entries stay as they are. A Secret that does not exist, or that
 * another writer changes at the same time, is left for the next call.
 *
 * @throws KubeApiError when a Secret cannot be read or written
 */
export async function ownSecrets(
  store: ReturnType<typeof secretAccess>,
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const name of names) {
    const known = await store.get(name, signal)
    if (known === undefined || known.isOwned) continue
    try {
      await store.put(name, known.data, known, signal)
    } catch (error) {
      if (!isConflict(error)) throw error
    }
  }
}
