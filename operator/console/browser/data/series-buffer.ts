/** Hits of some seconds, for plots: the oldest point is dropped when the buffer is full. */
export interface SeriesBuffer {
  /** Times in seconds, then one list of values for each name. */
  readonly columns: readonly number[][]
  push(atSeconds: number, values: readonly number[]): void
}

/** Points of several streams may come out of order by this. */
const maxDisorderSeconds = 10

/**
 * Creates a buffer for `width` values at each time. A point with the time of the last one, or one that is a
 * little older, replaces the last one. After a clock was set back, the buffer begins again.
 */
export function createSeriesBuffer(width: number, capacity: number): SeriesBuffer {
  const columns = Array.from({ length: width + 1 }, (): number[] => [])
  const [times = []] = columns
  return {
    columns,
    push(atSeconds, values) {
      const last = times.at(-1) ?? Number.NEGATIVE_INFINITY
      const isRestart = atSeconds < last - maxDisorderSeconds
      const isReplaced = atSeconds <= last
      const at = isRestart ? atSeconds : Math.max(atSeconds, last)
      for (const [index, value] of [at, ...values].entries()) {
        const column = columns[index] ?? []
        if (isRestart) column.length = 0
        else if (isReplaced) column.pop()
        column.push(value)
        if (column.length > capacity) column.shift()
      }
    },
  }
}
