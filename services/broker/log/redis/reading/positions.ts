import type { DirectoryEntry } from '../directory/directory-entry.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { SlowestReader } from './feeds.ts'

/**
 * Reports the positions of local readers to the brokers of producers that wait for them: soon after good
 * progress, otherwise periodically. A broker without a report for a while treats the reader as gone.
 */
export interface PositionReports {
  /** Sends reports soon, together with other events of this turn. */
  soon(): void
  /** Checks whether reports are due. */
  tick(): void
  /** No local reader holds entries of this request any more. */
  left(filed: DirectoryEntry): void
}

/** The content of an inbox message, after the id of the sending broker. */
export function decodeReports(text: string): readonly Report[] {
  return text === '' ? [] : JSON.parse(text)
}

/**
 * A position in an inbox: the key of a request, and the position of its slowest reader, or null without
 * readers.
 */
export type Report = readonly [key: string, position: number | null]

/** An unchanged position is repeated after this share of its timeout. */
const repeatShare = 1 / 5

export function createPositionReports(
  setup: RedisLogSetup,
  slowest: () => readonly SlowestReader[],
): PositionReports {
  const { clock, timings } = setup
  const told = new Map<string, { readonly podId: string; readonly position: number; readonly atMs: number }>()
  let scheduled = false

  function isDue({ filed, position }: SlowestReader, nowMs: number): boolean {
    const last = told.get(filed.key)
    if (last === undefined || last.position !== position || last.podId !== filed.podId) return true
    return nowMs - last.atMs > timings.lostMs * repeatShare
  }

  function tellAll(): void {
    scheduled = false
    const nowMs = clock.monotonicMs()
    const due = slowest().filter(reader => isDue(reader, nowMs))
    for (const { filed, position } of due) {
      told.set(filed.key, { podId: filed.podId, position, atMs: nowMs })
    }
    for (const [podId, readers] of Map.groupBy(due, ({ filed }) => filed.podId)) {
      const all = readers.map(({ filed, position }): Report => [filed.key, position])
      tell(podId, all)
    }
  }

  function tell(podId: string, reports: readonly Report[]): void {
    // NOMKSTREAM: the inbox of a lost broker must not be created again. Lost reports are repeated.
    const inbox = ['XADD', setup.keys.inbox(podId), 'NOMKSTREAM', 'MAXLEN', '~', 1000, '*'] as const
    setup.commands.call(...inbox, setup.podId, JSON.stringify(reports)).catch(() => {})
  }

  return {
    soon() {
      if (scheduled) return
      scheduled = true
      setImmediate(tellAll)
    },
    tick: tellAll,
    left({ key, podId }) {
      if (told.delete(key)) tell(podId, [[key, null]])
    },
  }
}
