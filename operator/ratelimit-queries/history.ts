import type { Clock } from '@tollway/chassis/clock.ts'
import { mergeDomains, mergePods, mergeRules } from './merge-totals.ts'
import type { HistoryPoint, HistoryQuery, HitCounts } from './pod-sessions.ts'
import type { ProcessSession } from './process-session.ts'

/** The time between two points: processes report every 5 s. */
const everyMs = 5_000
/** The number of points that are kept: 15 minutes. */
const capacity = 180
/**
 * At most this many domains and rules have a history. Each takes 3.6 KB, all of them 7 MiB. Beyond this
 * limit, the domain or rule that has had no hits for the longest time is dropped.
 */
const maxSeries = 2_000

const names = ['calls', 'allowed', 'refused', 'near', 'shadow'] as const

interface Series {
  /** The rates of each point, in the order of `names`. */
  readonly rates: Float32Array
  lastHitMs: number
}

/** The rates of domains and rules in the last 15 minutes, and the latencies of the slowest pod. */
export class History {
  readonly #sessions: () => readonly ProcessSession[]
  readonly #clock: Clock
  readonly #timer: NodeJS.Timeout
  readonly #atMs = new Float64Array(capacity)
  readonly #latencies = new Float32Array(2 * capacity)
  readonly #series = new Map<string, Series>()
  #points = 0

  constructor(sessions: () => readonly ProcessSession[], clock: Clock) {
    this.#sessions = sessions
    this.#clock = clock
    this.#timer = setInterval(() => this.record(), everyMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Adds a point with the present rates of each domain and rule. */
  record(): void {
    const sessions = this.#sessions()
    const nowMs = this.#clock.monotonicMs()
    const slot = this.#points % capacity
    this.#points += 1
    this.#atMs[slot] = this.#clock.nowMs()
    const pods = mergePods(sessions, [], nowMs)
    this.#latencies[2 * slot] = Math.max(0, ...pods.map(({ p50Ms }) => p50Ms))
    this.#latencies[2 * slot + 1] = Math.max(0, ...pods.map(({ p99Ms }) => p99Ms))
    for (const [key, { rates, lastHitMs }] of this.#series) {
      if (nowMs - lastHitMs > capacity * everyMs) this.#series.delete(key)
      else rates.fill(0, names.length * slot, names.length * (slot + 1))
    }
    for (const { domain, perSecond } of mergeDomains(sessions, nowMs)) {
      if (!hasHits(perSecond)) continue
      for (const { rule, perSecond } of mergeRules(sessions, domain, nowMs, true)) {
        if (hasHits(perSecond)) this.#set(seriesKey(domain, rule), slot, perSecond, nowMs)
      }
      this.#set(seriesKey(domain, ''), slot, perSecond, nowMs)
    }
  }

  /**
   * Returns the points, the oldest first. The rates are those of the rule or, without one, of the whole
   * domain, summed over `domains`.
   */
  read({ domains, rule = '' }: HistoryQuery): readonly HistoryPoint[] {
    const series = domains.flatMap(domain => this.#series.get(seriesKey(domain, rule)) ?? [])
    const count = Math.min(this.#points, capacity)
    return Array.from({ length: count }, (_, index) => {
      const slot = (this.#points - count + index) % capacity
      const sums = names.map((_, name) =>
        series.reduce((sum, { rates }) => sum + (rates[names.length * slot + name] ?? 0), 0),
      )
      const [calls = 0, allowed = 0, refused = 0, near = 0, shadow = 0] = sums
      const [p50Ms = 0, p99Ms = 0] = this.#latencies.subarray(2 * slot)
      return { atMs: this.#atMs[slot] ?? 0, calls, allowed, refused, near, shadow, p50Ms, p99Ms }
    })
  }

  #set(key: string, slot: number, perSecond: HitCounts, nowMs: number): void {
    const series = this.#series.get(key) ?? { rates: new Float32Array(names.length * capacity), lastHitMs: 0 }
    series.lastHitMs = nowMs
    for (const [index, name] of names.entries()) series.rates[names.length * slot + index] = perSecond[name]
    // Moves the series to the end, so that the map is in the order of the last hits.
    this.#series.delete(key)
    this.#series.set(key, series)
    if (this.#series.size > maxSeries) {
      const [quietest = ''] = this.#series.keys()
      this.#series.delete(quietest)
    }
  }
}

const hasHits = (rates: HitCounts) => names.some(name => rates[name] > 0)

const seriesKey = (domain: string, rule: string) => JSON.stringify([domain, rule])
