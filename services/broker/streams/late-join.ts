import type { LoggedRequest, RingCursor } from '../log/stream-log.ts'
import type { LateJoiners, Route } from '../routes/route.ts'

/** Where a pull begins to read a request, behind its header, which it gets in any case. */
export type Beginning =
  /** The pull was there when the request began. */
  | { readonly at: 'first' }
  /** The consumer has had so many of its messages before, maybe more than the log has by now. */
  | { readonly at: 'message'; readonly number: number }
  | { readonly at: 'join'; readonly policy: LateJoiners }

export interface Joining {
  /** What the consumer has had before, by the keys of requests. */
  readonly received: Received
  /** The request was there before the pull. */
  readonly late: boolean
}

/**
 * Where to begin, or undefined for a request that is not to be served: one that had ended before the pull came, unless
 * the pull resumes it or its route begins at the start. A later push may have the same ids: it is another request, and
 * the pull waits for it.
 */
export function findBeginning(
  { key, ended }: Pick<LoggedRequest, 'key' | 'ended'>,
  { lateJoiners }: Pick<Route, 'lateJoiners'>,
  { received, late }: Joining,
): Beginning | undefined {
  const number = received.get(key)
  if (number !== undefined) return { at: 'message', number: Math.max(1, number) }
  if (!late) return { at: 'first' }
  return ended && lateJoiners.from !== 'start' ? undefined : { at: 'join', policy: lateJoiners }
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

/** How many messages the consumer has had of a run, by the key of its request. */
export type Received = ReadonlyMap<string, number>

const maxReceived = 100
const receivedForm = /^([\w.-]{1,100})=(\d{1,15})$/

/**
 * Reads `tollway-received: <run>=<count>`, where the run is one that the broker has named, and the count is of all
 * messages of the request, its header included. Several may be in one value, with commas between them. `none` asks for
 * the names of runs, and resumes nothing.
 *
 * @returns undefined for a consumer that does not bring it, which is not to be told the names of runs
 * @throws Error that says what is wrong
 */
export function readReceived(values: readonly (string | Uint8Array)[]): Received | undefined {
  if (values.length === 0) return undefined
  const entries = values
    .flatMap(value => (typeof value === 'string' ? value.split(',') : []))
    .map(entry => entry.trim())
    .filter(entry => entry !== 'none')
  if (entries.length > maxReceived) {
    throw new Error(`${receivedMetadata}: ${entries.length} runs, at most ${maxReceived} are allowed`)
  }
  const received = new Map<string, number>()
  for (const entry of entries) {
    const [, run, count] = receivedForm.exec(entry) ?? []
    if (run === undefined) {
      throw new Error(`${receivedMetadata}: ${JSON.stringify(entry)} is neither <run>=<count> nor none`)
    }
    received.set(run, Number(count))
  }
  return received
}
