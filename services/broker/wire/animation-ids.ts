/** The ids of a request, its stream and its object. In a pull an empty field matches any value. */
export interface AnimationIds {
  /** One utterance: the unit that a controller can stop. */
  readonly requestId: string
  /** One session; several requests share it. */
  readonly streamId: string
  /** The avatar or object that the data is for. */
  readonly targetObjectId: string
}

/** Whether a pull for `wanted` matches the request with these ids. */
export function matchesIds(wanted: AnimationIds, ids: AnimationIds): boolean {
  return (
    isWanted(wanted.streamId, ids.streamId) &&
    isWanted(wanted.requestId, ids.requestId) &&
    isWanted(wanted.targetObjectId, ids.targetObjectId)
  )
}

const isWanted = (wanted: string, found: string) => wanted === '' || wanted === found
