import type { LoggedRequest, RingCursor } from '../log/stream-log.ts'
import type { LateJoiners, Route } from '../routes/route.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'

/** Where a pull begins to read a request, behind its header, which it gets in any case. */
export type Beginning =
  /** The pull was there when the request began. */
  | { readonly at: 'first' }
  /** The consumer has had so many of its messages before. */
  | { readonly at: 'message'; readonly number: number }
  | { readonly at: 'join'; readonly policy: LateJoiners }

export interface Joining {
  readonly wanted: AnimationIds
  /** What the consumer has had before, by request id. */
  readonly received: ReadonlyMap<string, number>
  /** The request was there before the pull. */
  readonly late: boolean
}

/**
 * Where to begin, or undefined for a request that is not to be served: one that had ended before the pull came,
 * unless the pull names it, resumes it, or its route begins at the start.
 */
export function findBeginning(
  { ids, ended }: Pick<LoggedRequest, 'ids' | 'ended'>,
  { lateJoiners }: Pick<Route, 'lateJoiners'>,
  { wanted, received, late }: Joining,
): Beginning | undefined {
  const number = received.get(ids.requestId)
  if (number !== undefined) return { at: 'message', number: Math.max(1, number) }
  if (!late) return { at: 'first' }
  const asked = wanted.requestId !== '' || lateJoiners.from === 'start'
  return ended && !asked ? undefined : { at: 'join', policy: lateJoiners }
}

/**
 * Moves a cursor that has given the header. Answers how many messages of the request are passed over of which
 * the consumer knows nothing; they are to be told, so that no gap is silent.
 */
export function seekBeginning(cursor: RingCursor, beginning: Beginning): number {
  switch (beginning.at) {
    case 'first':
      return 0
    case 'message':
      cursor.seek(beginning.number)
      return Math.max(0, cursor.position - beginning.number)
    case 'join': {
      const { policy } = beginning
      if (policy.from === 'now') cursor.seek('newest')
      else if (policy.from === 'last') cursor.seek({ lastMs: policy.seconds * 1000 })
      else cursor.seek('oldest')
      return cursor.position - 1
    }
  }
}

/** The metadata by which a consumer resumes. */
export const receivedMetadata = 'tollway-received'

const maxReceived = 100

/**
 * What `tollway-received: <request>=<count>` says, where the count is of all messages of the request, its header
 * included, and the request id is percent-encoded. Several may stand in one value, with commas between them.
 *
 * @throws Error that says what is wrong
 */
export function readReceived(values: readonly (string | Uint8Array)[]): ReadonlyMap<string, number> {
  const received = new Map<string, number>()
  const entries = values.flatMap(value => (typeof value === 'string' ? value.split(',') : []))
  if (entries.length > maxReceived) {
    throw new Error(`${receivedMetadata}: ${entries.length} requests, at most ${maxReceived} are allowed`)
  }
  for (const entry of entries) {
    const [, id, count] = /^\s*([^=]*)=(\d{1,15})\s*$/.exec(entry) ?? []
    if (id === undefined) {
      throw new Error(`${receivedMetadata}: ${JSON.stringify(entry)} is not <request>=<count>`)
    }
    received.set(decode(id), Number(count))
  }
  return received
}

function decode(id: string): string {
  try {
    return decodeURIComponent(id)
  } catch {
    throw new Error(`${receivedMetadata}: ${JSON.stringify(id)} is not percent-encoded`)
  }
}
