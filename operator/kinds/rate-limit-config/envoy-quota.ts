import { type QuotaCapacity, toQuotaCapacity } from '@tollway/ratelimit/rules/bucket.ts'
import { matchPrecedence } from '@tollway/ratelimit/rules/fields.ts'
import { toWindow } from '@tollway/ratelimit/rules/limit.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { parseUnit } from '@tollway/ratelimit/rules/units.ts'

/** Where the values of a key come from: a header for each key. Other keys have their own name as the header. */
export type HeaderNames = ReadonlyMap<string, string>

interface EnvoyQuota {
  /** An entry of `http_filters` for each domain with a limit that proxies share. */
  readonly filters: readonly object[]
  /** Rules that a proxy cannot match. */
  readonly problems: readonly string[]
}

/** The name of the cluster of the rate limit service, as in the examples. */
const cluster = 'ratelimit'
/** Envoy reports every 5 s, whatever is configured. */
const reportingInterval = '5s'
/** Without the service, each proxy enforces the whole limit alone for this time, and then none. */
const expiredTimeout = '86400s'

const quotaTypes = 'type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3'
const headerInput = 'type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput'
const addressInput = 'type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.SourceIPInput'
const addressMatcher = 'type.googleapis.com/envoy.extensions.matching.input_matchers.ip.v3.Ip'
/** The key of Envoy's action remote_address. */
const addressKey = 'remote_address'

/** Returns the configuration of Envoy's filter rate_limit_quota for the rules with `delivery: Quota`. */
export function toEnvoyQuota(domains: readonly RateLimitDomain[], headers: HeaderNames): EnvoyQuota {
  const problems: string[] = []
  const filters = domains.flatMap(({ domain, descriptors }) => {
    const rules = listQuotaRules(descriptors, []).filter(levels => {
      const problem = findProblem(levels, headers)
      if (problem !== undefined) problems.push(`domain ${domain}: ${problem}`)
      return problem === undefined
    })
    if (rules.length === 0) return []
    // The first match decides. The sort is stable.
    rules.sort((one, other) => other.length - one.length)
    return [
      {
        name: 'envoy.filters.http.rate_limit_quota',
        typed_config: {
          '@type': `${quotaTypes}.RateLimitQuotaFilterConfig`,
          domain,
          rlqs_server: { envoy_grpc: { cluster_name: cluster } },
          bucket_matchers: { matcher_list: { matchers: rules.map(levels => toMatcher(levels, headers)) } },
        },
      },
    ]
  })
  return { filters, problems }
}

/** The rules of each level down to one with a limit that is shared. */
type Levels = readonly RateLimitRule[]

function listQuotaRules(rules: readonly RateLimitRule[], above: Levels): Levels[] {
  return rules
    .toSorted((one, other) => rank(one) - rank(other))
    .flatMap(rule => {
      const levels = [...above, rule]
      const own = rule.rateLimit?.delivery === 'Quota' ? [levels] : []
      return [...listQuotaRules(rule.descriptors, levels), ...own]
    })
}

/** Returns a number that is smaller for a rule that takes precedence over another one of its key. */
function rank({ value, match }: RateLimitRule): number {
  if (match === undefined) return value === '' ? 9 : value.includes('*') ? 8 : 0
  const kind = matchPrecedence.findIndex(name => match[name] !== undefined)
  const length = (match.prefix ?? match.suffix ?? '').length
  const networks = (match.cidr ?? []).map(prefixLength)
  return kind + 1 / (1 + Math.max(length, ...networks))
}

function findProblem(levels: Levels, headers: HeaderNames): string | undefined {
  const name = levels.map(({ key, value }) => (value === '' ? key : `${key}=${value}`)).join(', ')
  const keys = levels.map(({ key }) => key)
  const twice = keys.find((key, index) => keys.indexOf(key) !== index)
  if (twice !== undefined) return `${name}: a bucket id cannot have the key ${twice} twice`
  const unnamed = keys.find(key => key !== addressKey && !isHeader(headers.get(key) ?? key))
  if (unnamed === undefined) return undefined
  return `${name}: ${unnamed} is not the name of a header; name one by --header ${unnamed}=HEADER`
}

/** A name in HTTP/2, or of a pseudo-header. */
export const isHeader = (text: string) => /^:?[a-z0-9!#$%&'+.^_`|~-]+$/i.test(text)

function toMatcher(levels: Levels, headers: HeaderNames): object {
  const predicates = levels.map(rule => toPredicate(rule, toInput(rule.key, headers)))
  return {
    predicate: predicates.length === 1 ? predicates[0] : { and_matcher: { predicate: predicates } },
    on_match: {
      action: {
        name: 'bucket',
        typed_config: {
          '@type': `${quotaTypes}.RateLimitQuotaBucketSettings`,
          bucket_id_builder: {
            bucket_id_builder: Object.fromEntries(
              levels.map(rule => [rule.key, toValue(rule, toInput(rule.key, headers))]),
            ),
          },
          reporting_interval: reportingInterval,
          // A token bucket here would end Envoy 1.40 with an error of segmentation.
          no_assignment_behavior: { fallback_rate_limit: { blanket_rule: 'ALLOW_ALL' } },
          expired_assignment_behavior: {
            fallback_rate_limit: { token_bucket: toTokenBucket(levels.at(-1)?.rateLimit) },
            expired_assignment_behavior_timeout: expiredTimeout,
          },
          deny_response_settings: { http_status: { code: 'TooManyRequests' } },
        },
      },
    },
  }
}

function toTokenBucket(policy: RateLimitPolicy | undefined): object {
  const { tokens, intervalSeconds, maxTokens } = capacityOf(policy)
  return { max_tokens: maxTokens, tokens_per_fill: tokens, fill_interval: `${intervalSeconds}s` }
}

function capacityOf(policy: RateLimitPolicy | undefined): QuotaCapacity {
  const { unit = '', requestsPerUnit = 0, ...fields } = policy ?? {}
  return toQuotaCapacity({ ...fields, ...toWindow(requestsPerUnit, parseUnit(unit) ?? 'second', fields) })
}

function toInput(key: string, headers: HeaderNames): object {
  const header = headers.get(key)
  if (key === addressKey && header === undefined) {
    return { name: addressKey, typed_config: { '@type': addressInput } }
  }
  return { name: key, typed_config: { '@type': headerInput, header_name: header ?? key } }
}

/** Returns the value of the bucket id: a constant if the rule has one counter for all its values. */
function toValue({ value, match, shareThreshold }: RateLimitRule, input: object): object {
  const only = match === undefined ? (value.includes('*') ? undefined : value) : match.exact
  const shared =
    match === undefined ? value.replaceAll('*', '') : (match.oneOf?.[0] ?? match.prefix ?? match.suffix)
  const constant = only || (shareThreshold ? shared : undefined)
  return constant ? { string_value: constant } : { custom_value: input }
}

function toPredicate({ value, match }: RateLimitRule, input: object): object {
  const single = (matcher: object) => ({ single_predicate: { input, ...matcher } })
  const byText = (text: object) => single({ value_match: text })
  const byRegex = (regex: string) => byText({ safe_regex: { google_re2: {}, regex } })
  if (match === undefined) {
    if (value === '') return byRegex('.+')
    return value.includes('*')
      ? byRegex(value.split('*').map(escapeRegex).join('.*'))
      : byText({ exact: value })
  }
  const { exact, oneOf, prefix, suffix, cidr, regex } = match
  if (oneOf !== undefined) {
    const predicates = oneOf.map(text => byText({ exact: text }))
    return predicates.length === 1 ? (predicates[0] ?? {}) : { or_matcher: { predicate: predicates } }
  }
  if (cidr !== undefined) {
    const ranges = cidr.map(network => ({
      address_prefix: network.split('/')[0],
      prefix_len: prefixLength(network),
    }))
    const matcher = { '@type': addressMatcher, cidr_ranges: ranges, stat_prefix: 'quota' }
    return single({ custom_match: { name: 'cidr', typed_config: matcher } })
  }
  if (prefix !== undefined) return byText({ prefix })
  if (suffix !== undefined) return byText({ suffix })
  return regex === undefined ? byText({ exact: exact ?? '' }) : byRegex(regex)
}

function prefixLength(network: string): number {
  const [address = '', length] = network.split('/')
  return Number(length ?? (address.includes(':') ? 128 : 32))
}

/** Escapes for RE2. */
const escapeRegex = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
