import type { RedisLogSetup } from '../setup.ts'
import { decodeReports, type Report } from './positions.ts'
import type { FollowedStream } from './read-loop.ts'

/** The stream of messages for this broker only. Its heartbeat creates it. */
export interface Inbox extends FollowedStream {
  /** Adds an empty message to end a blocking read of the inbox. */
  wake(): void
}

export function createInbox(
  { keys, podId, commands }: RedisLogSetup,
  onReports: (podId: string, reports: readonly Report[]) => void,
): Inbox {
  const key = keys.inbox(podId)
  let after = '0-0'
  return {
    key,
    get after() {
      return after
    },
    wanted: true,
    take(id, [from, reports]) {
      after = id
      if (reports !== undefined && reports.length > 0) onReports(String(from), decodeReports(String(reports)))
    },
    wake() {
      // If it is lost, the read ends a little later by its timeout.
      commands.call('XADD', key, 'NOMKSTREAM', 'MAXLEN', '~', 1000, '*', '', '').catch(() => {})
    },
  }
}
