/** If a point is older than the last one by more than this, a clock was set back. */
const maxDisorderSeconds = 10

/** The points of a plot. When the buffer is full, a new point removes the oldest one. */
export class SeriesBuffer {
  /** The times in Unix seconds, and then one list of values for each line. */
  readonly columns: readonly number[][]
  readonly #capacity: number

  /** @param width the number of values of each point */
  constructor(width: number, capacity: number) {
    this.columns = Array.from({ length: width + 1 }, (): number[] => [])
    this.#capacity = capacity
  }

  /**
   * Adds a point. It replaces the last one if it has the same time or is a little older, because points of
   * several streams can be out of order. If a clock was set back, the buffer is emptied first.
   */
  push(atSeconds: number, values: readonly number[]): void {
    const last = this.columns[0]?.at(-1) ?? Number.NEGATIVE_INFINITY
    const isRestart = atSeconds < last - maxDisorderSeconds
    const isReplaced = atSeconds <= last
    const at = isRestart ? atSeconds : Math.max(atSeconds, last)
    for (const [index, value] of [at, ...values].entries()) {
      const column = this.columns[index] ?? []
      if (isRestart) column.length = 0
      else if (isReplaced) column.pop()
      column.push(value)
      if (column.length > this.#capacity) column.shift()
    }
  }
}
