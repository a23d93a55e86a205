import type { SessionTable } from '../pods/session-table.ts'
import type { ProcessSession } from './process-session.ts'

/** The sessions of rate limit processes, and the pods that should have sessions. */
export interface PodTable extends Pick<SessionTable<ProcessSession>, 'sessions' | 'lost'> {
  /**
   * Returns the pods that exist: also those that have had no session since this operator became the leader.
   */
  expected(): readonly ExpectedPod[]
}

export interface ExpectedPod {
  readonly uid: string
  readonly name: string
}

/**
 * Returns the names of existing pods that lack a session of at least one process: because a session was lost,
 * because not all workers have connected, or because none has since the start of this operator.
 */
export function podsWithoutSession({ sessions, lost, expected }: PodTable): readonly string[] {
  const open = sessions()
  const connected = Map.groupBy(open, ({ uid }) => uid)
  const partly = open.filter(({ uid, identity }) => (connected.get(uid)?.length ?? 0) < identity.workers)
  const absent = expected().filter(({ uid }) => !connected.has(uid))
  const names = [
    ...podNames([...partly, ...lost().map(({ session }) => session)]),
    ...absent.map(({ uid, name }) => name || uid),
  ]
  return uniqueNames(names)
}

export const uniqueNames = (names: readonly string[]): readonly string[] => [...new Set(names)].sort()

/** Returns the names of the pods of these sessions, each once, sorted. A pod without a name has its uid. */
export function podNames(sessions: readonly ProcessSession[]): readonly string[] {
  return [...new Set(sessions.map(({ identity }) => identity.pod || identity.uid))].sort()
}
