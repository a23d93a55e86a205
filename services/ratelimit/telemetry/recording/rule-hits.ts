import type { Limit } from '../../rules/limit.ts'
import type { DescriptorEntry } from '../../rules/match.ts'
import { windowStart } from '../../rules/window.ts'
import type { LimitStats } from '../../stats/limit-stats.ts'

/** The hits of a rule, for all keys. */
export interface RuleHitsEstimate {
  readonly rule: string
  readonly allowed: number
  readonly refused: number
  readonly refusedAtLeast: number
  readonly refusedAtMost: number
}

/** The hits of one call that one limit has counted. */
export interface CountedHits {
  readonly limit: Limit<LimitStats>
  /** The counter of the limit, without its window. */
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
  /** The hits that a token bucket has allowed. */
  taken: number
  /** Whether a token bucket has been full since the recording began, whatever it was before. */
  isKnown: boolean
}

interface Rule {
  allowed: number
  refused: number
  /** Allowed hits that calls before the recording may have rejected. */
  uncertain: number
  /** Whether the rule has one counter, which is recorded. */
  readonly isOneKey: boolean
  readonly counters: Map<string, Counter>
}

/** The bounds of a sample, in standard errors. */
const confidence = 2.5

/**
 * The hits of each rule in a replay, and the bounds of its rejected hits.
 *
 * - A replay begins with empty counters. A rejected hit is certain, since calls before the recording could only have
 *   added to the counters; an allowed hit is uncertain while its counter may have hits from before.
 * - Of a sample, the hits of the recorded keys are divided by their share. The error of the sum follows from the hits of
 *   each recorded key, and of one more like the busiest. That holds for most sums of many keys; a few keys with most of
 *   the hits, none of which may be recorded, exceed it more often.
 */
export class RuleHits {
  readonly #fromMs: number
  readonly #rules = new Map<string, Rule>()

  /** @param fromMs the begin of the recording; earlier hits count in the counters only */
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

  /** Whether the counter may have hits from before the recording. */
  #isUncertain(limit: Limit<LimitStats>, counter: Counter, nowMs: number): boolean {
    const { algorithm, unitSeconds, requestsPerUnit } = limit
    if (algorithm === 'TokenBucket') {
      // The debt of rejected hits can be older than any recording.
      if (limit.countRejected) return true
      const capacity = limit.admission?.capacity ?? requestsPerUnit
      const refilled = (requestsPerUnit * (nowMs - this.#fromMs)) / (unitSeconds * 1000)
      counter.isKnown ||= refilled >= capacity + counter.taken
      return !counter.isKnown
    }
    const start = windowStart(Math.floor(nowMs / 1000), limit)
    return (algorithm === 'SlidingWindow' ? start - unitSeconds : start) * 1000 < this.#fromMs
  }

  /** @param share the recorded part of the keys */
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
    // The recorded hits are certain.
    refusedAtLeast: Math.floor(Math.max(refused, refused / share - error)),
    refusedAtMost: Math.ceil((refused + uncertain) / share + error),
  }
}
