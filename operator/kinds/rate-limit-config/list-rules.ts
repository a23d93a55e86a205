import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { compile, listLimits } from '@tollway/ratelimit/rules/compile.ts'
import { describeWindow } from '@tollway/ratelimit/rules/explain.ts'
import type { LimitSettings } from '@tollway/ratelimit/rules/limit.ts'
import { type RateLimitDomain, type RateLimitRule, toFinalKey } from '@tollway/ratelimit/rules/model.ts'

/** A limit of a domain, for lists. A rule with several limits yields one item for each. */
interface ListedRule {
  /** The name by which pods report hits: `domain.key_value.key2`. */
  readonly rule: string
  /**
   * The descriptors from the first level down; then the limit's name if the rule has several: `['user',
   * 'path_/pay']`.
   */
  readonly path: readonly string[]
  readonly limit: ListedLimit
}

interface ListedLimit {
  readonly requestsPerUnit: number
  /** The window: `minute`, `15 seconds`, `month of Europe/Copenhagen`. */
  readonly window: string
  readonly algorithm: string
  /** `Exact` or `Leased`. */
  readonly counting: string
  /** The number of hits that are admitted at once. */
  readonly burst: number
  /** What the rule matches other than its value: `prefix /api/`. */
  readonly matching?: string
  readonly unlimited: boolean
  readonly shadowMode: boolean
  readonly quotaMode: boolean
}

/**
 * Returns the limits of a domain, sorted by `rule`. Results are cached by the content, because consoles ask
 * every second.
 */
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
  const { counting = 'Exact', matching, unlimited, shadowMode, quotaMode } = settings
  return {
    requestsPerUnit,
    window: describeWindow(settings),
    algorithm,
    counting,
    burst,
    ...(matching !== undefined && { matching }),
    unlimited,
    shadowMode,
    quotaMode,
  }
}
