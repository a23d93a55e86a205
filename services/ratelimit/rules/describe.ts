import { listLimits, type RuleSet } from './compile.ts'
import { isConcurrency } from './fields.ts'
import type { LimitSettings } from './limit.ts'
import { escapeControls } from './problems.ts'
import { timeZoneDataVersion } from './time-zone.ts'

/**
 * Lists the active limits, one per line, as the debug page `/rlconfig` of envoyproxy/ratelimit does. The list
 * is empty before the first configuration.
 */
export function describeRules(rules: RuleSet<unknown> | undefined): string {
  if (rules === undefined) return ''
  let lines = ''
  for (const settings of listLimits(rules)) {
    const { fullKey, unit, requestsPerUnit, matching, counting, unlimited, shadowMode, quotaMode } = settings
    const unitName = unlimited || isConcurrency(settings) ? 'UNKNOWN' : unit.toUpperCase()
    const limit = `unit=${unitName} requests_per_unit=${requestsPerUnit}${describeWindows(settings)}${counting === undefined ? '' : ` counting=${counting}`}`
    const match = matching === undefined ? '' : ` match="${escapeControls(matching)}"`
    lines += `${escapeControls(fullKey)}: ${limit}${match}, shadow_mode: ${shadowMode}, quota_mode: ${quotaMode}\n`
  }
  return lines
}

/**
 * Describes the windows by the fields that envoyproxy/ratelimit does not have. A calendar is followed by the
 * version of the time zone database.
 */
function describeWindows({ unitMultiplier, calendar, maxConcurrent, leaseSeconds }: LimitSettings): string {
  if (maxConcurrent !== undefined) return ` max_concurrent=${maxConcurrent} lease_seconds=${leaseSeconds}`
  const multiplier = unitMultiplier === undefined ? '' : ` unit_multiplier=${unitMultiplier}`
  if (calendar === undefined) return multiplier
  const { timeZone, anchorMonth, anchorDay, anchorWeekday } = calendar
  const anchors = Object.entries({ month: anchorMonth, day: anchorDay, weekday: anchorWeekday }).flatMap(
    ([name, anchor]) => (anchor === undefined ? [] : [` anchor_${name}=${anchor}`]),
  )
  return `${multiplier} time_zone=${timeZone}${anchors.join('')} tzdata=${timeZoneDataVersion}`
}
