import { isConcurrency } from '../../rules/fields.ts'
import type { Limit } from '../../rules/limit.ts'
import type { DescriptorEntry } from '../../rules/match.ts'
import { windowStart } from '../../rules/window.ts'
import type { LimitStats } from '../../stats/limit-stats.ts'

/** The hits of a rule, summed over all keys. `refused` is an estimate, and lies between the two bounds. */
export interface RuleHitsEstimate {
  readonly rule: string
  readonly allowed: number
  readonly refused: number
  readonly refusedAtLeast: number
  readonly refusedAtMost: number
}

interface CountedHits {
  readonly limit: Limit<LimitStats>
  /** The key of the limit's counter, without the window. */
  readonly baseKey: string
  readonly domain: string
  readonly entries: readonly DescriptorEntry[]
  readonly nowMs: number
  readonly hits: number
  readonly refused: number
}

interface Counter {
  hits: number
  refused: number
  taken: number
  /**
   * Whether the bucket has been full at some time of the replay, so that its state no longer depends on calls
   * before the recording.
   */
  isKnown: boolean
}

interface Rule {
  allowed: number
  refused: number
  /** Allowed hits that would have been rejected if calls before the recording had used up the limit. */
  uncertain: number
  /**
   * Whether the rule names all values of its key, and so has only one counter, and that counter is recorded.
   */
  readonly isOneKey: boolean
  readonly counters: Map<string, Counter>
}

/** How far the bounds of a sample are from its estimate, in standard errors. */
const confidence = 2.5

/**
 * The hits of each rule in a replay, and bounds for its rejected hits.
 *
 * - A replay begins with empty counters. A rejected hit is certain, since calls before the recording could
 * only have added to the counters; an allowed hit is uncertain while its counter may have hits from before.
 * - If only a sample of the keys is recorded, their hits are divided by the share of recorded keys. The error
 * of that sum is estimated from the hits of each recorded key, and of one more key as busy as the busiest.
 * The bounds hold for most sums of many keys. They fail more often if a few keys, of which none may be
 * recorded, have most of the hits.
 */
export class RuleHits {
  readonly #fromMs: number
  readonly #rules = new Map<string, Rule>()

  /** @param fromMs the begin of the recording; earlier hits only fill the counters */
  constructor(fromMs: number) {
    this.#fromMs = fromMs
  }

  add(counted: CountedHits): void {
    const { limit, baseKey, nowMs, hits, refused } = counted
    const rule = this.#rules.get(limit.configuredKey) ?? this.#newRule(counted)
    const counter = rule.counters.get(baseKey) ?? newCounter()
    rule.counters.set(baseKey, counter)
    const allowed = hits - refused
    const isUncertain = this.#isUncertain(limit, counter, nowMs)
    if (nowMs < this.#fromMs) return
    counter.taken += allowed
    rule.allowed += allowed
    rule.refused += refused
    if (isUncertain) rule.uncertain += allowed
    counter.hits += hits
    counter.refused += refused
  }

  #newRule({ limit: { configuredKey }, domain, entries }: CountedHits): Rule {
    const named = `${domain}${entries.map(({ key, value }) => `.${key}_${value}`).join('')}`
    const isOneKey = configuredKey === named || configuredKey.startsWith(`${named}.`)
    const rule = { allowed: 0, refused: 0, uncertain: 0, isOneKey, counters: new Map() }
    this.#rules.set(configuredKey, rule)
    return rule
  }

  /** Returns whether the counter may still have hits from before the recording. */
  #isUncertain(limit: Limit<LimitStats>, counter: Counter, nowMs: number): boolean {
    const { algorithm, unitSeconds, requestsPerUnit } = limit
    if (algorithm === 'TokenBucket') {
      // The debt of a bucket that counts rejected hits can be older than any recording.
      if (limit.countRejected) return true
      const capacity = limit.admission?.capacity ?? requestsPerUnit
      const refilled = (requestsPerUnit * (nowMs - this.#fromMs)) / (unitSeconds * 1000)
      counter.isKnown ||= refilled >= capacity + counter.taken
      return !counter.isKnown
    }
    // A hold from before the recording has ended after its lease.
    if (isConcurrency(limit)) return nowMs < this.#fromMs + unitSeconds * 1000
    const start = windowStart(Math.floor(nowMs / 1000), limit)
    return (algorithm === 'SlidingWindow' ? start - unitSeconds : start) * 1000 < this.#fromMs
  }

  /** @param share the share of the keys that is recorded, above 0 and at most 1 */
  all(share: number): readonly RuleHitsEstimate[] {
    return Array.from(this.#rules, ([rule, hits]) => estimate(rule, hits, hits.isOneKey ? 1 : share)).sort(
      (a, b) => (a.rule < b.rule ? -1 : 1),
    )
  }
}

const newCounter = (): Counter => ({ hits: 0, refused: 0, taken: 0, isKnown: false })

function estimate(
  rule: string,
  { allowed, refused, uncertain, counters }: Rule,
  share: number,
): RuleHitsEstimate {
  let [squares, most] = [0, 0]
  for (const counter of counters.values()) {
    squares += counter.refused ** 2
    most = Math.max(most, counter.hits)
  }
  const error = (confidence * Math.sqrt((1 - share) * (squares + most ** 2))) / share
  return {
    rule,
    allowed: Math.round(allowed / share),
    refused: Math.round(refused / share),
    // At least the hits of the recorded keys were rejected, whatever the error of the sample.
    refusedAtLeast: Math.floor(Math.max(refused, refused / share - error)),
    refusedAtMost: Math.ceil((refused + uncertain) / share + error),
  }
}
