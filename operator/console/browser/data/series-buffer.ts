/** Hits of some seconds, for plots: the oldest point is dropped when the buffer is full. */
export interface SeriesBuffer {
  /** Times in seconds, then one list of values for each name. */
  readonly columns: readonly number[][]
  push(atSeconds: number, values: readonly number[]): void
}

/** Creates a buffer for `width` values at each time. A point with the time of the last one replaces it. */
export function createSeriesBuffer(width: number, capacity: number): SeriesBuffer {
  const columns = Array.from({ length: width + 1 }, (): number[] => [])
  const [times = []] = columns
  return {
    columns,
    push(atSeconds, values) {
      const isSame = times.at(-1) === atSeconds
      for (const [index, value] of [atSeconds, ...values].entries()) {
        const column = columns[index] ?? []
        if (isSame) column.pop()
        column.push(value)
        if (column.length > capacity) column.shift()
      }
    },
  }
}
