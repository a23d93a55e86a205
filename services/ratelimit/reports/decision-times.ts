import { type HistogramReading, histogramBuckets, quantileMs } from '@tollway/chassis/metrics/histogram.ts'
import type { Stats } from '../stats/registry/stats.ts'

export interface DecisionTimesParts {
  readonly stats: Pick<Stats, 'histogram' | 'histograms'>
  /** The times of the calls of `/json`, of which there is no statistic. */
  readonly jsonTimes: Pick<HistogramReading, 'counts'>
}

/** Returns a function that returns the decisions since its last call, and their quantiles. */
export function createDecisionTimes({ stats, jsonTimes }: DecisionTimesParts) {
  const name = 'ratelimit_server.ShouldRateLimit.response_time'
  stats.histogram(name)
  let before = new Float64Array(histogramBuckets)
  return () => {
    const ofGrpc = stats.histograms.find(histogram => histogram.name === name)?.counts
    const counts = jsonTimes.counts.map((count, bucket) => count + (ofGrpc?.[bucket] ?? 0))
    const added = counts.map((count, bucket) => count - (before[bucket] ?? 0))
    before = counts
    const decisions = added.reduce((sum, count) => sum + count, 0)
    return { decisions, p50Ms: quantileMs(added, 0.5), p99Ms: quantileMs(added, 0.99) }
  }
}
