import type { DecisionRequest } from '../../limiter/decision.ts'
import { contentHash } from '../content-hash.ts'
import { countsOneHitEach, hashCall, readCall, writeCall } from './call-text.ts'
import { isSampled, maxHalvings } from './sampling.ts'

export interface RecordedCall {
  readonly request: DecisionRequest
  /** Unix time in milliseconds, by the clock of the process. */
  readonly ms: number
  /** The backend counted the call this many microseconds after `ms`, by the backend's clock; 0 if unknown. */
  readonly aheadMicros: number
  readonly count: number
}

/** A step of reading a generation. The reader can let the event loop run after each step. */
export interface ReadStep {
  /** The call of a record; undefined if the step found no call of the domain. */
  readonly call: RecordedCall | undefined
  /** The number of records that the step has read, of all domains. */
  readonly records: number
}

/** One step reads at most this many records of other domains. */
const maxStepRecords = 1_000

/**
 * The number of words of a slot of the table: two for the hash, one for the text's offset plus 1, one for the
 * index of the last record.
 */
const slotWords = 4
/**
 * The number of words of a record: the milliseconds since the start, the text's offset, and the number of
 * calls. If the lowest bit of the third word is 1, the number of calls is in the other 31 bits. If it is 0,
 * the number is in the next 7 bits and `aheadMicros` in the upper 24.
 */
const recordWords = 3
const recordBytes = 4 * recordWords
/** A generation lasts at most this long: the time of a record has 32 bits. */
export const maxGenerationSeconds = 2_000_000
/** The part of the memory for records. An eighth is the table, and half is the texts. */
const recordsPart = 3 / 8
const slotsPart = 1 / 8

export const countRecords = (bytes: number): number => Math.floor((bytes * recordsPart) / recordBytes)
const maxDomains = 10_000

/** The memory has this many equal parts. When one is full too early, less is recorded. */
const checkpoints = 8

const endOfAhead = 2 ** 23
const maxShortCount = 127

function readCount(word: number): number {
  return (word & 1) === 1 ? word >>> 1 : (word >> 1) & maxShortCount
}

function readAhead(word: number): number {
  return (word & 1) === 1 ? 0 : word >> 8
}

/** One half of the memory of a recording. A class, because V8 accesses the fields of a class directly. */
export class Generation {
  /** The number of calls of each domain, recorded or not. */
  readonly domains = new Map<string, { calls: number }>()
  /** The number of calls of all domains, recorded or not. */
  calls = 0
  length = 0
  startSeconds = 0
  /** How often half of the keys were dropped. */
  halvings = 0
  /** Whether times are whole seconds, so that all equal calls of one second are one record. */
  isCoarse = false
  /** The number of readers that hold this generation: while there are any, it must not be overwritten. */
  readers = 0
  readonly #lastsSeconds: number
  readonly #texts: Uint16Array
  readonly #slots: Int32Array
  readonly #records: Int32Array
  #units = 0
  #entries = 0
  /**
   * No call is added to the records before this index: readers may have their counts, or the order of later
   * records matters.
   */
  #open = 0
  #checkpoint = 2
  /** The domain of the call before, which most calls share, and its counts. */
  #lastDomain: string | undefined
  #lastCounts = { calls: 0 }

  /** @param lastsSeconds less is recorded if the memory would be full in fewer seconds; 0 for never */
  constructor(bytes: number, lastsSeconds: number) {
    this.#lastsSeconds = lastsSeconds
    const slots = 2 ** Math.max(4, Math.floor(Math.log2((bytes * slotsPart) / (4 * slotWords))))
    this.#slots = new Int32Array(slots * slotWords)
    this.#records = new Int32Array(countRecords(bytes) * recordWords)
    this.#texts = new Uint16Array(Math.floor((bytes * (1 - recordsPart - slotsPart)) / 2))
  }

  clear(nowSeconds: number, halvings: number, isCoarse: boolean): void {
    this.domains.clear()
    this.calls = 0
    this.length = 0
    this.startSeconds = nowSeconds
    this.halvings = Math.min(maxHalvings, halvings)
    this.isCoarse = isCoarse
    this.#slots.fill(0)
    this.#units = 0
    this.#entries = 0
    this.#open = 0
    this.#checkpoint = 2
    this.#lastDomain = undefined
  }

  /** Returns the used share, from 0 to 1, of the part of the memory that will be full first. */
  used(): number {
    return Math.max(
      this.usedByRecords(),
      this.#units / this.#texts.length,
      (this.#entries * 2 * slotWords) / this.#slots.length,
    )
  }

  /** Returns the used share of the memory for records, from 0 to 1. */
  usedByRecords(): number {
    return (this.length * recordWords) / this.#records.length
  }

  halve(): void {
    this.halvings = Math.min(maxHalvings, this.halvings + 1)
  }

  count(domain: string): void {
    if (domain !== this.#lastDomain) {
      this.#lastCounts = this.domains.get(domain) ?? this.#newCounts(domain)
      this.#lastDomain = domain
    }
    this.#lastCounts.calls += 1
    this.calls += 1
  }

  /**
   * Records `count` equal calls, each with its sampled descriptors. A call that is too long or has no such
   * descriptor is skipped. Returns false and changes nothing if there is no room.
   */
  record(request: DecisionRequest, nowMs: number, aheadMicros: number, count = 1): boolean {
    const units = hashCall(request, this.halvings)
    if (units === 0) return true
    const slot = this.#find()
    const records = this.#records
    const last = this.#slots[slot + 3] ?? 0
    const isKnown = this.#slots[slot + 2] !== 0
    const at = last * recordWords
    const sinceMs = nowMs - this.startSeconds * 1000
    const time = this.isCoarse ? Math.floor(sinceMs / 1000) * 1000 : sinceMs
    const isPlain = this.isCoarse || aheadMicros === 0 || Math.abs(aheadMicros) >= endOfAhead
    const before = records[at + 2] ?? 0
    const isAlike = isPlain
      ? (before & 1) === 1
      : (before & 1) === 0 && before >> 8 === aheadMicros && readCount(before) + count <= maxShortCount
    const isAnyOrder = this.isCoarse || countsOneHitEach(request)
    const isOpen = last >= this.#open && (isAnyOrder || last === this.length - 1)
    if (isKnown && isOpen && records[at] === time && isAlike) {
      records[at + 2] = before + 2 * count
      return true
    }
    if (!this.#append(request, units, slot, isKnown)) return false
    if (!isAnyOrder) this.#open = this.length - 1
    const added = (this.length - 1) * recordWords
    records[added] = time
    records[added + 2] = isPlain ? 2 * count + 1 : aheadMicros * 256 + 2 * count
    this.#spareIfEarly(sinceMs / 1000)
    return true
  }

  /** Appends a record without its time and count. Returns false if there is no room. */
  #append(request: DecisionRequest, units: number, slot: number, isKnown: boolean): boolean {
    const slots = this.#slots
    const at = this.length * recordWords
    if (at === this.#records.length) return false
    if (!isKnown) {
      const isFull = this.#units + units > this.#texts.length || this.#entries * 2 * slotWords >= slots.length
      if (isFull && this.length > 0) return false
      writeCall(this.#texts, this.#units, request, this.halvings)
      slots[slot] = contentHash.low
      slots[slot + 1] = contentHash.high
      slots[slot + 2] = this.#units + 1
      this.#units += units
      this.#entries += 1
    }
    slots[slot + 3] = this.length
    this.#records[at + 1] = (slots[slot + 2] ?? 0) - 1
    this.length += 1
    return true
  }

  /**
   * Records less from now on if a checkpoint is reached before its share of the time has passed. If records
   * take most of the memory, times become whole seconds; otherwise half of the keys are dropped.
   */
  #spareIfEarly(sinceSeconds: number): void {
    if (this.used() * checkpoints < this.#checkpoint) return
    this.#checkpoint += 1
    const lasted = sinceSeconds / this.#lastsSeconds
    if (lasted * checkpoints >= this.#checkpoint - 2) return
    if (!this.isCoarse && this.usedByRecords() === this.used()) this.isCoarse = true
    else this.halve()
  }

  /**
   * Finds the slot of the call whose hash is in `contentHash`, or a free slot: at most half of the slots are
   * used.
   */
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

  #newCounts(domain: string): { calls: number } {
    const counts = { calls: 0 }
    // Limited, because callers choose the names of domains.
    if (this.domains.size < maxDomains) this.domains.set(domain, counts)
    return counts
  }

  /** Returns when the calls of a record were counted, in microseconds since the start of the generation. */
  readMicros(record: number): number {
    const at = record * recordWords
    return (this.#records[at] ?? 0) * 1000 + readAhead(this.#records[at + 2] ?? 0)
  }

  /** Ensures that later calls are not added to the present records. */
  freeze(): void {
    this.#open = this.length
  }

  /**
   * Reads the first `length` records. Descriptors that this number of halvings drops are left out.
   *
   * @param order the indexes of the records in the order to read them; the order of recording if left out
   */
  *read(
    domain: string,
    length: number,
    halvings: number,
    order?: Uint32Array,
  ): Generator<ReadStep, undefined> {
    let records = 0
    for (let index = 0; index < length; index++) {
      records += 1
      const call = this.#call(domain, (order?.[index] ?? index) * recordWords, halvings)
      if (call === undefined && records < maxStepRecords) continue
      yield { call, records }
      records = 0
    }
    return undefined
  }

  /** Returns undefined for a call of another domain, and for one without a sampled descriptor. */
  #call(domain: string, at: number, halvings: number): RecordedCall | undefined {
    const offset = this.#records[at + 1] ?? 0
    if (!this.#hasDomain(domain, offset)) return undefined
    const ms = this.startSeconds * 1000 + (this.#records[at] ?? 0)
    const counted = this.#records[at + 2] ?? 0
    const [count, aheadMicros] = [readCount(counted), readAhead(counted)]
    const request = readCall(this.#texts, offset)
    const descriptors = request.descriptors.filter(({ entries }) => isSampled(entries, halvings))
    return descriptors.length === 0
      ? undefined
      : { request: { ...request, descriptors }, ms, aheadMicros, count }
  }

  /** Returns whether the text at the offset is of this domain: each text begins with its domain. */
  #hasDomain(domain: string, offset: number): boolean {
    const texts = this.#texts
    if (texts[offset] !== domain.length) return false
    for (let at = 0; at < domain.length; at++) {
      if (texts[offset + 1 + at] !== domain.charCodeAt(at)) return false
    }
    return true
  }
}
