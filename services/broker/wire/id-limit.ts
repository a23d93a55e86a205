import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { AnimationIds } from './animation-ids.ts'

/**
 * The maximum length of each id and of a source service's name, in Unicode characters. Real pipelines
 * allow 50 to 100.
 */
export const maxIdCharacters = 100

/** An id, or the name of a source service, has more than `maxIdCharacters`. */
export class IdTooLong extends ExpectedError {
  constructor(field: string, characters: number) {
    super(`${field}: ${characters} characters are found, at most ${maxIdCharacters} are allowed`)
    this.name = 'IdTooLong'
  }
}

/** @throws IdTooLong */
export function assertIdsAreShort(ids: AnimationIds, sourceServiceId = ''): void {
  assertShort('animation_ids.request_id', ids.requestId)
  assertShort('animation_ids.stream_id', ids.streamId)
  assertShort('animation_ids.target_object_id', ids.targetObjectId)
  assertShort('source_service_id', sourceServiceId)
}

function assertShort(field: string, id: string): void {
  if (id.length <= maxIdCharacters) return
  let characters = 0
  for (const _ of id) characters += 1
  if (characters > maxIdCharacters) throw new IdTooLong(field, characters)
}
