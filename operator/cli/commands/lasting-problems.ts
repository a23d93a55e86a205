import type { SourceProblem } from '../../sources/source.ts'

/** A container that is started again has no problem for a moment, which does not restart the grace. */
const maxGapMs = 5_000

/** What has been seen of the obstacle of one origin. */
interface Seen {
  readonly sinceMs: number
  readonly lastMs: number
  /** Whether a further attempt was waited for, and whether it has failed as well. */
  readonly hasWaited: boolean
  readonly hasFailedAgain: boolean
}

/**
 * Returns a function that is called with the problems of one report after the other, and returns those whose
 * obstacle has lasted for the grace: a Secret may be created some seconds after the pods, and a registry may
 * answer the second attempt.
 *
 * @param graceMs without it, no obstacle lasts
 */
export function lastingProblems(
  graceMs: number | undefined,
): (problems: readonly SourceProblem[], nowMs: number) => readonly SourceProblem[] {
  const known = new Map<string, Seen>()
  return (problems, nowMs) =>
    problems.filter(({ origin, obstacle }) => {
      if (obstacle === undefined || graceMs === undefined) return false
      const { attempt } = obstacle
      const last = known.get(origin)
      const before = last !== undefined && nowMs - last.lastMs < maxGapMs ? last : undefined
      const seen = {
        sinceMs: before?.sinceMs ?? nowMs,
        lastMs: nowMs,
        hasWaited: before?.hasWaited === true || attempt === 'waiting',
        hasFailedAgain:
          before?.hasFailedAgain === true || (before?.hasWaited === true && attempt === 'failed'),
      }
      known.set(origin, seen)
      return nowMs - seen.sinceMs >= graceMs && (attempt === undefined || seen.hasFailedAgain)
    })
}
