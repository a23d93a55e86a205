import type { SessionTable } from '../pods/session-table.ts'
import type { ProcessSession } from './process-session.ts'

/** The sessions of processes, and the pods that are expected to have some. */
export interface PodTable extends Pick<SessionTable<ProcessSession>, 'sessions' | 'lost'> {
  /** The pods that exist. An operator that has just become the leader has had no session of them. */
  expected(): readonly ExpectedPod[]
}

export interface ExpectedPod {
  readonly uid: string
  readonly name: string
}

/**
 * Returns the names of the pods that exist, and of which a process has no session: one that was lost, one of
 * the workers of the pod, or all of them since the start of this operator.
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

/** The names of pods, each once, sorted. */
export function podNames(sessions: readonly ProcessSession[]): readonly string[] {
  return [...new Set(sessions.map(({ identity }) => identity.pod || identity.uid))].sort()
}
