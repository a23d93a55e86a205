import { ExpectedError } from '@tollway/chassis/expected-error.ts'

/** The three ids of a request. In a pull, an empty id matches any value. */
export interface AnimationIds {
  /** The id of one utterance: the unit that a controller can stop. */
  readonly requestId: string
  /** The id of one session; several requests share it. */
  readonly streamId: string
  /** The id of the avatar or object that the data is for. */
  readonly targetObjectId: string
}

/** Returns whether a pull for `wanted` matches a request with these ids. */
export function matchesIds(wanted: AnimationIds, ids: AnimationIds): boolean {
  return (
    isWanted(wanted.streamId, ids.streamId) &&
    isWanted(wanted.requestId, ids.requestId) &&
    isWanted(wanted.targetObjectId, ids.targetObjectId)
  )
}

/**
 * Returns a text that is equal for equal ids only. Brokers that share a Redis store ids there in this form.
 */
export function idsKey({ streamId, requestId, targetObjectId }: AnimationIds): string {
  return JSON.stringify([streamId, requestId, targetObjectId])
}

const isWanted = (wanted: string, found: string) => wanted === '' || wanted === found

/**
 * An id, or the name of a source service, has at most this many Unicode characters. Real pipelines allow 50
 * to
 * 100.
 */
export const maxIdCharacters = 100

/** Thrown if an id, or the name of a source service, has more than `maxIdCharacters`. */
export class IdTooLong extends ExpectedError {
  constructor(field: string, characters: number) {
    super(`${field}: ${characters} characters are found, at most ${maxIdCharacters} are allowed`)
    this.name = 'IdTooLong'
  }
}

/** @throws IdTooLong for an id or a name of the source service */
export function assertIdsAreShort(ids: AnimationIds, sourceServiceId = ''): void {
  assertShort('animation_ids.request_id', ids.requestId)
  assertShort('animation_ids.stream_id', ids.streamId)
  assertShort('animation_ids.target_object_id', ids.targetObjectId)
  assertShort('source_service_id', sourceServiceId)
}

function assertShort(field: string, id: string): void {
  const characters = countCharacters(id)
  if (characters > maxIdCharacters) throw new IdTooLong(field, characters)
}

/** Counts Unicode characters; or UTF-16 units, if these suffice to see that the text is short. */
export function countCharacters(text: string): number {
  if (text.length <= maxIdCharacters) return text.length
  let characters = 0
  for (const _ of text) characters += 1
  return characters
}
