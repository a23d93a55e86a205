import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** The bytes that are hashed in one turn of the event loop, which takes one to three milliseconds. */
const bytesPerTurn = 1024 * 1024

/** Resolves with the SHA-256 of each resource as base64, in order. Other work runs after each MiB. */
export async function hashResources(
  resources: readonly { readonly value: Uint8Array }[],
): Promise<readonly string[]> {
  const hashes: string[] = []
  let left = bytesPerTurn
  for (const { value } of resources) {
    if (left < 0) {
      await nextTurn()
      left = bytesPerTurn
    }
    hashes.push(createHash('sha256').update(value).digest('base64'))
    left -= value.length
  }
  return hashes
}
