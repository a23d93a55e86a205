/**
 * Collects numbers without an object for each: garbage collection in the load must not affect the
 * measurement.
 */
export interface Recorder {
  record(value: number): void
  /** Returns the numbers in the order of recording. */
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
