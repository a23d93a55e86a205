import type { ConcurrentRequests } from '../routes/route.ts'

/** What a pull does with the requests that it has when another one comes. */
export interface Turn {
  /** The one that is served ends with WARNING "superseded". */
  readonly supersedes: boolean
  /** How many of those that wait are dropped, the oldest first. */
  readonly drops: number
}

/**
 * Messages of two requests are never mixed in one pull, since they carry no ids: the newcomer waits, or takes
 * the place of all others. That a request is refused because of another is decided where it is pushed.
 */
export function takeTurn(
  policy: ConcurrentRequests,
  { serving, waiting, maxWaiting }: { serving: boolean; waiting: number; maxWaiting: number },
): Turn {
  if (policy === 'newest') return { supersedes: serving, drops: waiting }
  return { supersedes: false, drops: Math.max(0, waiting + 1 - maxWaiting) }
}
