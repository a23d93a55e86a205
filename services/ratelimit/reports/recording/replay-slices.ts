import { setImmediate, setTimeout } from 'node:timers/promises'
import type { Slices } from '@tollway/chassis/slices.ts'

const sliceMs = 0.5
/**
 * The pause after a slice while calls are decided. A timer counts from the begin of the event loop's turn,
 * which contains the slice.
 */
const pauseMs = 2
/** A process that has decided no call for this time replays without such pauses. */
const quietMs = 100

/**
 * Divides a replay into slices that do not delay decisions noticeably.
 *
 * @param decisions returns the number of calls that the process has decided
 * @param signal rejects the pause
 */
export function createReplaySlices(decisions: () => number, signal: AbortSignal): Slices {
  let endMs = performance.now() + sliceMs
  let decided = decisions()
  let busyUntilMs = performance.now() + quietMs

  async function rest(nowMs: number): Promise<void> {
    const count = decisions()
    if (count !== decided) busyUntilMs = nowMs + quietMs
    decided = count
    if (nowMs < busyUntilMs) await setTimeout(pauseMs, undefined, { signal })
    else await setImmediate(undefined, { signal })
    endMs = performance.now() + sliceMs
  }

  return {
    rest() {
      const nowMs = performance.now()
      return nowMs < endMs ? undefined : rest(nowMs)
    },
  }
}
