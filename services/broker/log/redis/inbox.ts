import { decodeReports, type Report } from './positions.ts'
import type { FollowedStream } from './read-loop.ts'
import type { RedisLogSetup } from './setup.ts'

/** What this broker alone is told. Its heartbeat makes it. */
export interface Inbox extends FollowedStream {
  /** Puts something in that says nothing: whoever waits for its next entry waits no more. */
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
      // When it is lost, the waiting ends by itself a little later.
      commands.call('XADD', key, 'NOMKSTREAM', 'MAXLEN', '~', 1000, '*', '', '').catch(() => {})
    },
  }
}
