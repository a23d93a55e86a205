import type { SlowestReader } from './feeds.ts'
import type { FiledRequest } from './filed-request.ts'
import type { RedisLogSetup } from './setup.ts'

/**
 * Tells the brokers of producers that wait for their readers how far those are here: at once when a reader
 * has made good progress, otherwise now and then. Who is not told for a while takes it that the reader is
 * gone.
 */
export interface PositionReports {
  /** Soon, together with what else happens in this turn. */
  soon(): void
  /** Looks whether something is to be told. */
  tick(): void
  /** No reader here holds entries of this request any more. */
  left(filed: FiledRequest): void
}

/** What stands in an inbox, behind the broker that has put it there. */
export function decodeReports(text: string): readonly Report[] {
  return text === '' ? [] : JSON.parse(text)
}

/** A position in an inbox: the key of a request, and where its slowest reader is, null for none. */
export type Report = readonly [key: string, position: number | null]

/**
 * A position that has not changed is told again after this share of the time after which it no longer counts.
 */
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
    // The inbox of a broker that is gone must not come into being again. What is lost is told again.
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
