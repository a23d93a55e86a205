import {
  type DomainConfig,
  finalKeyOf,
  type JsonObject,
  parseUnit,
  type RateLimitConfig,
  type Unit,
  unitSeconds,
} from './config.ts'
import { type FlatDescriptor, type FlatItem, flatten } from './flatten.ts'
import { sanitizeStatName } from './names.ts'
import { createRuleIndex, type RuleIndex } from './rule-index.ts'
import { compileWildcard, type Wildcard } from './wildcard.ts'

/** Configurations in the form that requests are matched against. `S` is what counts the hits of one limit. */
export interface RuleSet<S> {
  /** By the domain's name. A domain that is not here is unknown, which is not the same as no match in it. */
  readonly domains: ReadonlyMap<string, Level<S>>
  /** The rules of one value each, at whatever level. */
  readonly exact: RuleIndex<S>
  /** Every limit, in the configurations' order. */
  readonly limits: readonly Limit<S>[]
}

/** Rules that stand beside each other: those of a domain, or those below another rule. */
export interface Level<S> {
  /** Of all levels of the set, from 1. */
  readonly number: number
  readonly keys: ReadonlyMap<string, KeyRules<S>>
  /** Rules with a `*` in their key, in the configuration's order. */
  readonly openKeys: readonly Rule<S>[]
}

/** Rules of one key beside each other. */
export interface KeyRules<S> {
  /** Of the rules of one value each, in the configuration's order. */
  readonly values: ReadonlySet<string>
  /** Rules with a `*` in their value, but not in their key, in the configuration's order. */
  readonly wildcards: readonly Rule<S>[]
  readonly anyValue: Rule<S> | undefined
}

export interface Rule<S> {
  /** The number of the level that it stands in. */
  readonly level: number
  readonly key: string
  /** Empty for any value. */
  readonly value: string
  /** `domain.key_value.key2_value2`, as configured. */
  readonly fullKey: string
  /** Its place among all rules, for the order in which wildcards are tried. */
  readonly order: number
  /** Tests the value; when the key holds a `*`, the key and the value joined by `_`. */
  readonly wildcard: Wildcard | undefined
  readonly parent: Rule<S> | undefined
  /** Values that match this wildcard share one counter. */
  readonly shares: boolean
  /** Whether this rule or one above it shares its counter. */
  readonly sharesInPath: boolean
  /**
   * What is the same in the cache key of every request that comes here, ready for `match`: `domain_key_value_`
   * for a rule of one value, `domain_key_` for one of any value. undefined below or with what is not of one
   * value.
   */
  readonly stem: string | undefined
  readonly valueToMetric: boolean
  /** Whether this rule or one above it has `value_to_metric`. */
  readonly valueToMetricInPath: boolean
  /**
   * How its limit is named: as configured, by all values of the request, or by those that `value_to_metric`
   * asks for.
   */
  readonly naming: 'configured' | 'detailed' | 'by value'
  readonly limit: Limit<S> | undefined
  /** undefined when nothing stands below. */
  readonly below: Level<S> | undefined
  /** The number of that level; 0 when nothing stands below. */
  readonly belowNumber: number
}

export interface Limit<S> {
  /** The limit's own name, which others may replace and the answer tells. Empty when it has none. */
  readonly name: string
  /** `domain.key_value.key2_value2`: what the limit is called in listings. */
  readonly fullKey: string
  /** The same, fit for statistics. */
  readonly statName: string
  /** 0 to 2^32-1. */
  readonly requestsPerUnit: number
  /** `second` for an unlimited one, where it means nothing. */
  readonly unit: Unit
  /** The length of the window. */
  readonly unitSeconds: number
  /** Never counted; its requests pass. */
  readonly unlimited: boolean
  readonly shadowMode: boolean
  readonly quotaMode: boolean
  readonly replaces: readonly string[]
  readonly metadata: JsonObject | undefined
  readonly stats: S
}

export interface CompileOptions<S> {
  /** As `validate` was told. Configurations of one domain are put together, in their order. */
  readonly mergeDomainConfigs: boolean
  /** Called once for each limit with its `statName`. Two limits can have the same one. */
  attach(statName: string): S
}

/**
 * Makes configurations fast to match: a request costs a few look-ups, however many rules there are, and a
 * test of each wildcard of its key. Only for configurations that `validate` found no problem in; throws on a
 * second configuration of a domain without `mergeDomainConfigs`.
 */
export function compile<S>(configs: readonly DomainConfig[], options: CompileOptions<S>): RuleSet<S> {
  const compiler = createCompiler(options)
  for (const item of flatten(configs)) compiler.add(item)
  return compiler.finish()
}

/** Compiles in parts, so that who has other work in between can do it. */
export interface Compiler<S> {
  /** The next item of `flatten`. */
  add(item: FlatItem): void
  /** All that was added. Nothing may be added afterwards. */
  finish(): RuleSet<S>
}

/** As `compile`; `add` throws where that does. */
export function createCompiler<S>({ mergeDomainConfigs, attach }: CompileOptions<S>): Compiler<S> {
  const domains = new Map<string, LevelBuilder<S>>()
  const build: Build<S> = {
    limits: [],
    exact: createRuleIndex(),
    texts: new Map(),
    rules: 0,
    levels: 0,
    attach,
  }
  /** By depth, the parent whose descriptors come, and the level that takes them. */
  let open: { readonly level: LevelBuilder<S>; readonly parent: Rule<S> | undefined }[] = []
  let domain = ''

  function begin(next: string): void {
    const existing = domains.get(next)
    if (existing !== undefined && !mergeDomainConfigs) {
      throw new Error(`compile: two configurations of the domain '${next}' were not refused`)
    }
    const level = existing ?? emptyLevel(build)
    domains.set(next, level)
    open = [{ level, parent: undefined }]
    domain = next
  }

  return {
    add(item) {
      if ('domain' in item) return begin(item.domain)
      const { depth, isParent, descriptor } = item
      const place = open[depth]
      if (place === undefined) throw new Error(`compile: a descriptor of depth ${depth} has no parent`)
      const below: LevelBuilder<S> | undefined = isParent ? emptyLevel(build) : undefined
      const rule = createRule(build, place.level, descriptor, domain, place.parent, below)
      addTo(build, place.level, rule)
      if (below !== undefined) open[depth + 1] = { level: below, parent: rule }
    },
    finish: () => ({ domains, exact: build.exact, limits: build.limits }),
  }
}

interface Build<S> {
  readonly limits: Limit<S>[]
  readonly exact: RuleIndex<S>
  /**
   * Each key and each value once: every match looks at some, and those that many rules have are always in the
   * processor's caches.
   */
  readonly texts: Map<string, string>
  rules: number
  levels: number
  attach(statName: string): S
}

interface LevelBuilder<S> extends Level<S> {
  readonly keys: Map<string, KeyRulesBuilder<S>>
  readonly openKeys: Rule<S>[]
}

interface KeyRulesBuilder<S> extends KeyRules<S> {
  readonly values: Set<string>
  readonly wildcards: Rule<S>[]
  anyValue: Rule<S> | undefined
}

function emptyLevel<S>(build: Build<S>): LevelBuilder<S> {
  build.levels += 1
  return { number: build.levels, keys: new Map(), openKeys: [] }
}

function createRule<S>(
  build: Build<S>,
  { number: level }: Level<S>,
  descriptor: FlatDescriptor,
  domain: string,
  parent: Rule<S> | undefined,
  below: Level<S> | undefined,
): Rule<S> {
  const { rateLimit, valueToMetric } = descriptor
  const key = onlyOne(build, descriptor.key)
  const value = onlyOne(build, descriptor.value)
  const fullKey = `${parent?.fullKey ?? domain}.${finalKeyOf(descriptor)}`
  const wildcard = wildcardOf(descriptor)
  const shares = descriptor.shareThreshold && wildcard !== undefined
  const valueToMetricInPath = valueToMetric || parent?.valueToMetricInPath === true
  const limit = rateLimit && createLimit(build, descriptor, rateLimit, fullKey)
  if (limit !== undefined) build.limits.push(limit)
  return {
    // What `match` looks at stands first, to be together in memory.
    level,
    value,
    key,
    limit,
    stem: wildcard === undefined ? stemOf(domain, descriptor, parent) : undefined,
    naming: descriptor.detailedMetric ? 'detailed' : valueToMetricInPath ? 'by value' : 'configured',
    belowNumber: below?.number ?? 0,
    below,
    fullKey,
    order: build.rules++,
    wildcard,
    parent,
    shares,
    sharesInPath: shares || parent?.sharesInPath === true,
    valueToMetric,
    valueToMetricInPath,
  }
}

function onlyOne({ texts }: Build<unknown>, text: string): string {
  const known = texts.get(text)
  if (known === undefined) texts.set(text, text)
  return known ?? text
}

function stemOf(
  domain: string,
  { key, value }: FlatDescriptor,
  parent: Rule<unknown> | undefined,
): string | undefined {
  const above = parent === undefined ? `${domain}_` : parent.value === '' ? undefined : parent.stem
  if (above === undefined) return undefined
  return value === '' ? `${above}${key}_` : `${above}${key}_${value}_`
}

/**
 * A `*` in the key makes the reference test key and value joined; elsewhere the key must be the request's
 * own.
 */
function wildcardOf({ key, value }: FlatDescriptor): Wildcard | undefined {
  if (key.includes('*')) return compileWildcard(finalKeyOf({ key, value }))
  return value.includes('*') ? compileWildcard(value) : undefined
}

function createLimit<S>(
  build: Build<S>,
  { shadowMode, quotaMode, metadata }: FlatDescriptor,
  { name, unit, requestsPerUnit, unlimited, replaces }: RateLimitConfig,
  fullKey: string,
): Limit<S> {
  const known = parseUnit(unit) ?? 'second'
  const statName = sanitizeStatName(fullKey)
  return {
    name,
    fullKey,
    statName,
    requestsPerUnit: requestsPerUnit ?? 0,
    unit: known,
    unitSeconds: unitSeconds[known],
    unlimited,
    shadowMode,
    quotaMode,
    replaces,
    metadata,
    stats: build.attach(statName),
  }
}

function addTo<S>(build: Build<S>, level: LevelBuilder<S>, rule: Rule<S>): void {
  let rules = level.keys.get(rule.key)
  if (rules === undefined) {
    rules = { values: new Set(), wildcards: [], anyValue: undefined }
    level.keys.set(rule.key, rules)
  }
  if (rule.value === '') rules.anyValue = rule
  else {
    rules.values.add(rule.value)
    build.exact.add(rule)
  }
  if (rule.wildcard === undefined) return
  if (rule.key.includes('*')) level.openKeys.push(rule)
  else rules.wildcards.push(rule)
}
