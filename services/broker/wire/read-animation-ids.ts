import type { AnimationIds } from './animation-ids.ts'
import { assertIdsAreShort } from './id-limit.ts'
import { emptyIds, readIds } from './read-header.ts'
import { WireReader } from './wire-reader.ts'

/**
 * The encoded AnimationIds of a pull. That all three are empty is for the caller to judge.
 *
 * @throws MalformedMessage for bytes that are no such message, or that have groups
 * @throws IdTooLong when one has more than `maxIdCharacters`
 */
export function readAnimationIds(bytes: Uint8Array): AnimationIds {
  const ids = emptyIds()
  readIds(new WireReader(bytes), ids)
  assertIdsAreShort(ids)
  return ids
}
