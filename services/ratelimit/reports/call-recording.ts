import type { DecisionRequest } from '../limiter/decision.ts'
import { hashCall, readCall, writeCall } from './call-text.ts'
import { contentHash } from './content-hash.ts'

/**
 * The latest calls, in fixed memory. Equal calls of one second are one record, so a busy key takes 12 bytes a
 * second, and the text of a call is stored once in each half of the memory. When one half is full, the other
 * half, which has older calls, is overwritten. Of each second, the first `maxCallsPerSecond` are recorded, so
 * that a busy process spends little time on it.
 */
export interface CallRecording {
  record(request: DecisionRequest, nowSeconds: number): void
  /** Returns the recorded calls of a domain. A later `record` does not change the calls to iterate. */
  of(domain: string): RecordedCalls
}

export interface RecordedCalls {
  /** Unix time of the first call of the recording, in whole seconds; undefined before it. */
  readonly fromSeconds: number | undefined
  /** The recorded calls of the domain, of all its calls since then. */
  readonly recorded: number
  readonly calls: number
  /** Oldest first. Releases the memory at the end, and when the iteration is closed. */
  records(): Generator<RecordedCall, undefined>
  /** The number of records of all domains that `records` reads. */
  readonly length: number
}

export interface RecordedCall {
  readonly request: DecisionRequest
  readonly seconds: number
  /** The number of equal calls in this second. */
  readonly count: number
}

/** The words of a slot of the table: both halves of the hash, the text's offset plus 1, the last record. */
const slotWords = 4
/** The words of a record: its second, the text's offset, the number of calls. */
const recordWords = 3

const maxCallsPerSecond = 5_000

export function createCallRecording(bytes: number, maxPerSecond = maxCallsPerSecond): CallRecording {
  let newer: Generation | undefined
  let older: Generation | undefined
  let second = 0
  let left = maxPerSecond

  function next(): Generation {
    const reused = older !== undefined && older.readers === 0 ? older : new Generation(bytes / 2)
    older = newer
    reused.clear()
    newer = reused
    return reused
  }

  return {
    record(request, nowSeconds) {
      if (nowSeconds !== second) {
        second = nowSeconds
        left = maxPerSecond
      }
      const current = newer ?? next()
      if (left === 0) return current.skip(request.domain)
      left -= 1
      const units = hashCall(request)
      if (!current.record(request, units, nowSeconds)) next().record(request, units, nowSeconds)
    },
    of(domain) {
      const generations = [older, newer].filter(generation => generation !== undefined)
      const lengths = generations.map(({ length }) => length)
      const counts = generations.map(({ domains }) => domains.get(domain) ?? nothing)
      const starts = generations.flatMap(generation =>
        generation.length === 0 ? [] : [generation.startSeconds],
      )
      return {
        fromSeconds: starts[0],
        recorded: counts.reduce((sum, { recorded }) => sum + recorded, 0),
        calls: counts.reduce((sum, { calls }) => sum + calls, 0),
        length: lengths.reduce((sum, length) => sum + length, 0),
        *records() {
          for (const generation of generations) generation.readers += 1
          try {
            for (const [index, generation] of generations.entries()) {
              yield* generation.read(domain, lengths[index] ?? 0)
            }
          } finally {
            for (const generation of generations) generation.readers -= 1
          }
          return undefined
        },
      }
    },
  }
}

const nothing = { calls: 0, recorded: 0 }

/** One half of the memory. A class, since V8 accesses the fields of a class directly. */
class Generation {
  readonly domains = new Map<string, { calls: number; recorded: number }>()
  length = 0
  startSeconds = 0
  /** Readers of old records, for which the memory must not be overwritten. */
  readers = 0
  readonly #texts: Uint16Array
  readonly #slots: Int32Array
  readonly #records: Uint32Array
  #units = 0
  #entries = 0
  /** Most calls have the domain of the call before. */
  #lastDomain: string | undefined
  #lastCounts = { calls: 0, recorded: 0 }

  /** An eighth of the memory is the table, three eighths are records, and half of it is texts. */
  constructor(bytes: number) {
    const slots = 2 ** Math.max(4, Math.floor(Math.log2(bytes / 8 / (4 * slotWords))))
    this.#slots = new Int32Array(slots * slotWords)
    this.#records = new Uint32Array(Math.floor((bytes * 3) / 8 / 4 / recordWords) * recordWords)
    this.#texts = new Uint16Array(Math.floor(bytes / 2 / 2))
  }

  clear(): void {
    this.domains.clear()
    this.length = 0
    this.#slots.fill(0)
    this.#units = 0
    this.#entries = 0
    this.#lastDomain = undefined
  }

  /** Counts a call that is not recorded. */
  skip(domain: string): void {
    this.#countsOf(domain).calls += 1
  }

  /** Returns false without an effect if there is no room. `units` is the result of `hashCall`. */
  record(request: DecisionRequest, units: number, nowSeconds: number): boolean {
    if (this.length === 0) this.startSeconds = nowSeconds
    if (units === 0) {
      this.skip(request.domain)
      return true
    }
    const slot = this.#find()
    const records = this.#records
    const last = (this.#slots[slot + 3] ?? 0) * recordWords
    const isKnown = this.#slots[slot + 2] !== 0
    if (isKnown && records[last] === nowSeconds) records[last + 2] = (records[last + 2] ?? 0) + 1
    else if (!this.#append(request, units, nowSeconds, slot, isKnown)) return false
    const counts = this.#countsOf(request.domain)
    counts.calls += 1
    counts.recorded += 1
    return true
  }

  #append(
    request: DecisionRequest,
    units: number,
    nowSeconds: number,
    slot: number,
    isKnown: boolean,
  ): boolean {
    const slots = this.#slots
    const at = this.length * recordWords
    if (at === this.#records.length) return false
    if (!isKnown) {
      const isFull = this.#units + units > this.#texts.length || this.#entries * 2 * slotWords >= slots.length
      if (isFull && this.length > 0) return false
      writeCall(this.#texts, this.#units, request)
      slots[slot] = contentHash.low
      slots[slot + 1] = contentHash.high
      slots[slot + 2] = this.#units + 1
      this.#units += units
      this.#entries += 1
    }
    slots[slot + 3] = this.length
    this.#records[at] = nowSeconds
    this.#records[at + 1] = (slots[slot + 2] ?? 0) - 1
    this.#records[at + 2] = 1
    this.length += 1
    return true
  }

  /** Returns the slot of the call with `contentHash`, or a free one. At most half of the slots are used. */
  #find(): number {
    const slots = this.#slots
    const { low, high } = contentHash
    const mask = slots.length - 1
    let slot = ((low ^ (low >>> 15)) * slotWords) & mask
    while (slots[slot + 2] !== 0 && (slots[slot] !== low || slots[slot + 1] !== high)) {
      slot = (slot + slotWords) & mask
    }
    return slot
  }

  #countsOf(domain: string): { calls: number; recorded: number } {
    if (domain === this.#lastDomain) return this.#lastCounts
    const counts = this.domains.get(domain) ?? this.#newCounts(domain)
    this.#lastDomain = domain
    this.#lastCounts = counts
    return counts
  }

  #newCounts(domain: string): { calls: number; recorded: number } {
    // Callers choose the names of domains.
    if (this.domains.size >= maxDomains) return { calls: 0, recorded: 0 }
    const counts = { calls: 0, recorded: 0 }
    this.domains.set(domain, counts)
    return counts
  }

  *read(domain: string, length: number): Generator<RecordedCall, undefined> {
    for (let index = 0; index < length; index++) {
      const at = index * recordWords
      const offset = this.#records[at + 1] ?? 0
      if (!this.#isOf(domain, offset)) continue
      const request = readCall(this.#texts, offset)
      yield { request, seconds: this.#records[at] ?? 0, count: this.#records[at + 2] ?? 0 }
    }
    return undefined
  }

  /** A text begins with the domain. */
  #isOf(domain: string, offset: number): boolean {
    const texts = this.#texts
    if (texts[offset] !== domain.length) return false
    for (let at = 0; at < domain.length; at++) {
      if (texts[offset + 1 + at] !== domain.charCodeAt(at)) return false
    }
    return true
  }
}

const maxDomains = 10_000
