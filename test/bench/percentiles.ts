/** Returns the value below which this share of the values lies, by nearest rank; 0 for none. */
export function percentile(values: readonly number[] | Float64Array, share: number): number {
  return ofSorted(Float64Array.from(values).sort(), share)
}

function ofSorted(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
}

export interface LatencyFigures {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
}

/** Returns the reported percentiles of latencies in milliseconds. */
export function latencyFigures(latenciesMs: Float64Array): LatencyFigures {
  const sorted = latenciesMs.toSorted()
  return { p50Ms: ofSorted(sorted, 0.5), p99Ms: ofSorted(sorted, 0.99), p999Ms: ofSorted(sorted, 0.999) }
}

/** The spread of one figure over several rounds. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), min: percentile(values, 0), max: percentile(values, 1) }
}

/** Returns the middle value, or the mean of both; 0 for none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2
}
