import type { AnimationIds } from './animation-ids.ts'
import { assertIdsAreShort } from './id-limit.ts'
import { emptyIds, readIds } from './read-header.ts'
import { WireReader } from './wire-reader.ts'

/**
 * Reads the encoded AnimationIds of a pull. The caller checks whether all three are empty.
 *
 * @throws MalformedMessage for bytes that are not such a message, or that have groups
 * @throws IdTooLong if one has more than `maxIdCharacters`
 */
export function readAnimationIds(bytes: Uint8Array): AnimationIds {
  const ids = emptyIds()
  readIds(new WireReader(bytes), ids)
  assertIdsAreShort(ids)
  return ids
}
