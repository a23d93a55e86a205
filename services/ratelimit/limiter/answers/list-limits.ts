import type { Limit } from '../../rules/limit.ts'
import type { Match } from '../../rules/match.ts'
import { windowSeconds } from '../../rules/window.ts'
import type { AdmittedDescriptor } from '../admission.ts'
import type { DescriptorDecision } from '../decision.ts'
import type { ListedLimit } from './listed-limit.ts'

/**
 * Returns the limits of a decided call without unlimited ones, in the order of its descriptors and of their
 * limits.
 *
 * @param admitted the descriptors whose limits admitted the call, instead of only counting it, by their index
 */
export function listLimits(
  matches: readonly (Match<unknown> | undefined)[],
  statuses: readonly DescriptorDecision[],
  admitted: ReadonlyMap<number, AdmittedDescriptor>,
  nowSeconds: number,
): readonly ListedLimit[] {
  return matches.flatMap((found, place): readonly ListedLimit[] => {
    if (found === undefined || found.limit.unlimited) return []
    const verdicts = admitted.get(place)?.verdicts
    if (verdicts !== undefined) {
      return verdicts.map(({ limit, outcome, resetSeconds, delays }) => {
        const isEnforced = !limit.shadowMode
        return {
          ...settingsOf(limit, nowSeconds),
          remaining: Math.max(0, outcome.remaining),
          resetSeconds,
          over: isEnforced && !outcome.admitted,
          delays: isEnforced && delays,
        }
      })
    }
    const { over = false, remaining = 0, limit } = statuses[place] ?? {}
    const { resetSeconds } = limit ?? {}
    return [{ ...settingsOf(found.limit, nowSeconds), remaining, resetSeconds, over, delays: over }]
  })
}

function settingsOf(limit: Limit<unknown>, nowSeconds: number) {
  const { name, requestsPerUnit, headers = true } = limit
  return { name, requestsPerUnit, windowSeconds: windowSeconds(nowSeconds, limit), shown: headers }
}
