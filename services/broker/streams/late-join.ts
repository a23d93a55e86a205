import type { LateJoiners, Route } from '../routes/route.ts'
import type { LoggedRequest, RingCursor } from '../stream-log/stream-log.ts'

/** Which message a pull gets first after the header. */
export type Beginning =
  /** The pull began before the request, and gets every message. */
  | { readonly at: 'first' }
  /** The pull resumes: the consumer has received `number` messages before, perhaps more than the log has. */
  | { readonly at: 'message'; readonly number: number }
  | { readonly at: 'join'; readonly policy: LateJoiners }

interface Joining {
  /** The messages that the consumer has received before, by run. */
  readonly received: ReceivedCounts
  readonly late: boolean
}

/**
 * Returns undefined for a request that is not served: it had ended before the pull began, the pull does not
 * resume it, and late consumers of its route do not begin at the start. A later push with the same ids is
 * another request, for which the pull waits.
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
 * Moves a cursor that has returned the header. Returns the number of skipped messages that the consumer does
 * not know of; the caller reports them, so that no gap is silent.
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

/** See `parseReceivedCounts`. */
export const receivedMetadata = 'tollway-received'

/** The number of received messages by run; a run is the key of its request. */
export type ReceivedCounts = ReadonlyMap<string, number>

const maxReceived = 100
const receivedForm = /^([\w.-]{1,100})=(\d{1,15})$/

/**
 * Parses `tollway-received: <run>=<count>`: the run is a name from the broker, and the count includes all
 * messages of the request and its header. Several pairs are separated by commas. `none` requests the names of
 * runs without resuming any.
 *
 * @returns undefined without this metadata: the consumer does not get the names of runs
 * @throws Error that describes the problem
 */
export function parseReceivedCounts(values: readonly (string | Uint8Array)[]): ReceivedCounts | undefined {
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
