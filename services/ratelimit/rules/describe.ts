import { limitsOf, type RuleSet } from './compile.ts'
import { printable } from './printable.ts'

/**
 * Lists the active limits, one per line, as the reference's debug page `/rlconfig` does. The list is empty
 * before the first configuration.
 */
export function describeRules(rules: RuleSet<unknown> | undefined): string {
  if (rules === undefined) return ''
  let lines = ''
  for (const { fullKey, unit, requestsPerUnit, unlimited, shadowMode, quotaMode } of limitsOf(rules)) {
    const unitName = unlimited ? 'UNKNOWN' : unit.toUpperCase()
    const limit = `unit=${unitName} requests_per_unit=${requestsPerUnit}`
    lines += `${printable(fullKey)}: ${limit}, shadow_mode: ${shadowMode}, quota_mode: ${quotaMode}\n`
  }
  return lines
}
