/** Collects numbers without an object each: a load must not be measured by its own garbage collector. */
export interface Recorder {
  record(value: number): void
  /** In the order in which they were recorded. */
  values(): Float64Array
}

const initialCapacity = 65_536

export function createRecorder(): Recorder {
  let values = new Float64Array(initialCapacity)
  let length = 0
  return {
    record(value) {
      if (length === values.length) {
        const larger = new Float64Array(2 * length)
        larger.set(values)
        values = larger
      }
      values[length++] = value
    },
    values: () => values.slice(0, length),
  }
}
