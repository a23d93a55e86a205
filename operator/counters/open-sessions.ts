import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import { createPodSessions } from './create-pod-sessions.ts'
import type { LeaderLink } from './leader/leader-link.ts'
import { viaLeader } from './leader/remote-pod-sessions.ts'
import { queryMethods } from './leader/serve-queries.ts'
import type { PodSessions } from './pod-sessions.ts'
import { createSessionTable } from './session-table.ts'

/** The server's side of the sessions of rate limit processes. */
export interface Sessions {
  /** The methods that the server of the feed adds. */
  readonly methods: readonly AnyMethod[]
  /** Ends every stream with UNAVAILABLE, and refuses new ones. */
  close(): void
}

export interface OpenedSessions {
  readonly sessions: Sessions
  readonly podSessions: PodSessions
  /** Ends the subscriptions. */
  closeSessions(): void
}

export interface SessionsEnvironment {
  readonly leader?: LeaderLink
  readonly operatorName?: string
  /** Whether the pod with this uid does not exist any more. */
  readonly isGone?: (uid: string) => boolean
}

/** Opens the sessions of one operator; with a `leader`, of one of several. */
export function openSessions(
  { leader, operatorName, isGone }: SessionsEnvironment,
  log: Log,
): OpenedSessions {
  const table = createSessionTable({ clock: systemClock, log, leader, operatorName, isGone })
  const local = createPodSessions({ table, clock: systemClock })
  const queries = operatorName === undefined ? [] : queryMethods(local, operatorName)
  return {
    sessions: { methods: [...table.methods, ...queries], close: table.close },
    podSessions: leader === undefined ? local : viaLeader(local, leader),
    closeSessions: local.close,
  }
}
