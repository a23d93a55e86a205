import type { Slices } from '@tollway/chassis/slices.ts'
import type { RecordedCalls } from './call-recording.ts'
import { Generation, type RecordedCall } from './generation.ts'
import { maxHalvings } from './sampling.ts'

interface MergedCallsOptions {
  readonly domain: string
  readonly bytes: number
  readonly halvings: number
  /** Unix time in seconds, before all calls. */
  readonly epochSeconds: number
  readonly slices: Slices
}

export type ReplayedCalls = Pick<RecordedCalls, 'records' | 'length' | 'halvings'>

/** The calls of several recordings of a domain. Half of the keys are dropped when the memory is full. */
export class MergedCalls {
  readonly #options: MergedCallsOptions
  #calls: Generation
  #added: Promise<void> = Promise.resolve()

  constructor(options: MergedCallsOptions) {
    this.#options = options
    this.#calls = this.#open(options.halvings)
  }

  /**
   * Adds calls that come after those of earlier `add`s. At an undefined item, the event loop runs if it is
   * due.
   */
  add(calls: Iterable<RecordedCall | undefined>): Promise<void> {
    this.#added = this.#added.then(() => this.#addAll(calls))
    return this.#added
  }

  /** Resolves with all calls that have been added, sorted by time. */
  async inOrder(): Promise<ReplayedCalls> {
    await this.#added
    const calls = this.#calls
    const { length, halvings } = calls
    const order = await sortByTime(calls, this.#options.slices)
    const { domain } = this.#options
    return { length, halvings, records: () => calls.read(domain, length, halvings, order) }
  }

  async #addAll(calls: Iterable<RecordedCall | undefined>): Promise<void> {
    for (const call of calls) {
      const resting = this.#options.slices.yieldIfDue()
      if (resting !== undefined) await resting
      while (call !== undefined && !addTo(this.#calls, call) && this.#calls.halvings < maxHalvings)
        await this.#halve()
    }
  }

  async #halve(): Promise<void> {
    const full = this.#calls
    const fewer = this.#open(full.halvings + 1)
    for (const { call } of full.read(this.#options.domain, full.length, fewer.halvings)) {
      const resting = this.#options.slices.yieldIfDue()
      if (resting !== undefined) await resting
      if (call !== undefined) addTo(fewer, call)
    }
    this.#calls = fewer
  }

  #open(halvings: number): Generation {
    const { bytes, epochSeconds } = this.#options
    const opened = new Generation(bytes, 0)
    opened.clear(epochSeconds, halvings, false)
    return opened
  }
}

const addTo = (calls: Generation, { request, ms, aheadMicros, count }: RecordedCall) =>
  calls.record(request, ms, aheadMicros, count)

const digits = 2 ** 16
const stepRecords = 4_096

/** Resolves with the indexes of the records, sorted by time. Records of the same time keep their order. */
async function sortByTime(calls: Generation, slices: Slices): Promise<Uint32Array> {
  const { length } = calls
  let [sorted, next] = [Uint32Array.from({ length }, (_, record) => record), new Uint32Array(length)]
  // A radix sort with three digits of 16 bits, which hold any time within 2^31 ms in microseconds.
  for (const unit of [1, digits, digits ** 2]) {
    const readDigit = (record: number) => Math.floor(Math.max(0, calls.readMicros(record)) / unit) % digits
    const starts = new Uint32Array(digits + 1)
    const forEach = async (visit: (record: number) => void) => {
      for (let index = 0; index < length; index++) {
        visit(sorted[index] ?? 0)
        const resting = index % stepRecords === 0 ? slices.yieldIfDue() : undefined
        if (resting !== undefined) await resting
      }
    }
    await forEach(record => {
      const index = readDigit(record) + 1
      starts[index] = (starts[index] ?? 0) + 1
    })
    for (let digit = 0; digit < digits; digit++)
      starts[digit + 1] = (starts[digit + 1] ?? 0) + (starts[digit] ?? 0)
    await forEach(record => {
      const digit = readDigit(record)
      const index = starts[digit] ?? 0
      starts[digit] = index + 1
      next[index] = record
    })
    ;[sorted, next] = [next, sorted]
  }
  return sorted
}
