import type { RuleSet } from './compile.ts'
import { hasFlag, none, ruleFlag } from './domain-table.ts'
import { maxRequestsPerUnit } from './fields.ts'
import type { LimitSettings } from './limit.ts'
import { type DescriptorEntry, type Match, match, walk } from './match.ts'

type Entries = readonly DescriptorEntry[]

/**
 * The levels of a resource. Rules of other sources can be deeper and have no buckets: the orders of more entries would
 * take too long to try.
 */
const maxEntries = 8

/**
 * Returns the entries of a bucket id in the order of the levels of the rules. A bucket id is a map, so its entries have
 * no order: the first one in the order of keys applies that leads to a limit. Returns undefined if none does.
 */
export function orderEntries(rules: RuleSet<unknown>, domain: string, bucket: Entries): Entries | undefined {
  const found = rules.domains.get(domain)
  if (found === undefined || bucket.length === 0 || bucket.length > maxEntries) return undefined
  const extend = (ordered: Entries, left: Entries): Entries | undefined => {
    const record = ordered.length === 0 ? undefined : walk(found, ordered, { counts: false })
    if (record === none) return undefined
    if (left.length === 0) {
      return record !== undefined && hasFlag(found.table, record, ruleFlag.hasLimit) ? ordered : undefined
    }
    for (const entry of left) {
      const rest = left.filter(other => other !== entry)
      const all = extend([...ordered, entry], rest)
      if (all !== undefined) return all
    }
    return undefined
  }
  return extend(
    [],
    bucket.toSorted((one, other) => (one.key < other.key ? -1 : 1)),
  )
}

/** Returns the limit of a bucket if proxies may share it (`delivery: Quota`). */
export function matchBucket<S>(rules: RuleSet<S>, domain: string, bucket: Entries): Match<S> | undefined {
  const entries = orderEntries(rules, domain, bucket)
  const found = entries && match(rules, domain, entries)
  return found?.limit.delivery === 'Quota' ? found : undefined
}

/** Shares are whole numbers of tokens, so that an hour divides a limit finely. The most tokens are 2^32-1. */
const intervals = [3600, 60, 1] as const

/** A limit as a token bucket, of which each proxy gets a part. */
export interface QuotaCapacity {
  /** The tokens of an interval. */
  readonly tokens: number
  readonly intervalSeconds: number
  /** The tokens of a full bucket: the burst of a TokenBucket, or those of one second. */
  readonly maxTokens: number
}

export function toQuotaCapacity({
  requestsPerUnit,
  unitSeconds,
  algorithm,
  burst = requestsPerUnit,
}: Pick<LimitSettings, 'requestsPerUnit' | 'unitSeconds' | 'algorithm' | 'burst'>): QuotaCapacity {
  const perSecond = requestsPerUnit / unitSeconds
  const intervalSeconds = intervals.find(seconds => perSecond * seconds <= maxRequestsPerUnit) ?? 1
  const maxTokens = algorithm === 'TokenBucket' ? burst : Math.floor(perSecond)
  return {
    tokens: Math.floor(perSecond * intervalSeconds),
    intervalSeconds,
    maxTokens: Math.max(1, maxTokens),
  }
}

/** Returns the tokens of the full bucket of a share: at least one, or it would never admit a request. */
export function toBucketSize(
  { tokens, maxTokens }: Pick<QuotaCapacity, 'tokens' | 'maxTokens'>,
  share: number,
): number {
  return Math.max(1, Math.floor((maxTokens * share) / tokens))
}

/** Returns the capacity with a name among all that have shares of it: tokens of different intervals cannot be added. */
export function nameCapacity(
  baseKey: string,
  limit: LimitSettings,
): QuotaCapacity & { readonly name: string } {
  const capacity = toQuotaCapacity(limit)
  return { name: `${baseKey} ${capacity.intervalSeconds}`, ...capacity }
}
