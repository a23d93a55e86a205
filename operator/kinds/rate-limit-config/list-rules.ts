import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { compile, listLimits } from '@tollway/ratelimit/rules/compile.ts'
import { describeWindow } from '@tollway/ratelimit/rules/explain.ts'
import type { LimitSettings } from '@tollway/ratelimit/rules/limit.ts'
import { type RateLimitDomain, type RateLimitRule, toFinalKey } from '@tollway/ratelimit/rules/model.ts'

/** A limit of a domain, for lists. Each limit of a rule with several is one of its own. */
interface ListedRule {
  /** `domain.key_value.key2`: pods report hits by these names. */
  readonly rule: string
  /**
   * The descriptors from the first level down, and the name of a limit of several: `['user', 'path_/pay']`.
   */
  readonly path: readonly string[]
  readonly limit: ListedLimit
}

interface ListedLimit {
  readonly requestsPerUnit: number
  /** `minute`, `15 seconds`, `month of Europe/Copenhagen`. */
  readonly window: string
  readonly algorithm: string
  /** The hits that are admitted at once. */
  readonly burst: number
  readonly unlimited: boolean
  readonly shadowMode: boolean
  readonly quotaMode: boolean
}

/** Returns the limits of a domain, sorted by name. They are kept, because consoles ask each second. */
export const listedRules = oncePerObject((content: RateLimitDomain): readonly ListedRule[] => {
  const compiled = compile([content], { mergeDomainConfigs: false, attach: () => undefined })
  const limits = new Map([...listLimits(compiled)].map(settings => [settings.fullKey, listedLimit(settings)]))
  const paths = new Map(
    listPaths(content.descriptors).map(path => [`${content.domain}.${path.join('.')}`, path]),
  )
  return [...limits]
    .map(([rule, limit]) => ({ rule, path: paths.get(rule) ?? [rule], limit }))
    .sort((a, b) => (a.rule < b.rule ? -1 : 1))
})

function listPaths(
  rules: readonly RateLimitRule[],
  above: readonly string[] = [],
): readonly (readonly string[])[] {
  return rules.flatMap(rule => {
    const path = [...above, toFinalKey(rule)]
    const members = (rule.limits ?? []).map(({ name }, index) => [...path, name || `${index}`])
    return [path, ...members, ...listPaths(rule.descriptors, path)]
  })
}

function listedLimit(settings: LimitSettings): ListedLimit {
  const { requestsPerUnit, algorithm = 'FixedWindow', burst = requestsPerUnit } = settings
  const { unlimited, shadowMode, quotaMode } = settings
  return {
    requestsPerUnit,
    window: describeWindow(settings),
    algorithm,
    burst,
    unlimited,
    shadowMode,
    quotaMode,
  }
}
