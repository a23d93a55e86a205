import { setImmediate as nextTurn } from 'node:timers/promises'
import { hashContent } from '@tollway/chassis/hash-content.ts'

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
    hashes.push(hashContent(value))
    left -= value.length
  }
  return hashes
}
