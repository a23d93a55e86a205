import type { DecisionRequest } from '../../limiter/decision.ts'
import { contentHash } from '../content-hash.ts'
import { hashCall, readCall, writeCall } from './call-text.ts'
import { isSampled, maxHalvings } from './sampling.ts'

export interface RecordedCall {
  readonly request: DecisionRequest
  readonly seconds: number
  /** The number of equal calls in this second. */
  readonly count: number
}

/** A step of a reader, which can rest after each one. */
export interface ReadStep {
  /** Undefined if no record of the step is a call of the domain. */
  readonly call: RecordedCall | undefined
  /** The number of records of all domains that were read. */
  readonly records: number
}

/** The most records of other domains that one step reads. */
const maxStepRecords = 1_000

/** The words of a slot of the table: both halves of the hash, the text's offset plus 1, the last record. */
const slotWords = 4
/** The words of a record: its second, the text's offset, the number of calls. */
const recordWords = 3
const maxDomains = 10_000

/** After each of these parts of the memory, the keys are halved if the memory would be full too early. */
const checkpoints = 8

/** One half of the memory of a recording. A class, since V8 accesses the fields of a class directly. */
export class Generation {
  /** The calls of each domain, recorded or not. */
  readonly domains = new Map<string, { calls: number }>()
  length = 0
  startSeconds = 0
  /** How many times the recorded keys were halved. */
  halvings = 0
  /** Readers of old records, for which the memory must not be overwritten. */
  readers = 0
  readonly #lastsSeconds: number
  readonly #texts: Uint16Array
  readonly #slots: Int32Array
  readonly #records: Uint32Array
  #units = 0
  #entries = 0
  /** The records that a reader has, to which no call is added. */
  #sealed = 0
  #checkpoint = 2
  /** Most calls have the domain of the call before. */
  #lastDomain: string | undefined
  #lastCounts = { calls: 0 }

  /** An eighth of the memory is the table, three eighths are records, and half of it is texts. */
  constructor(bytes: number, lastsSeconds: number) {
    this.#lastsSeconds = lastsSeconds
    const slots = 2 ** Math.max(4, Math.floor(Math.log2(bytes / 8 / (4 * slotWords))))
    this.#slots = new Int32Array(slots * slotWords)
    this.#records = new Uint32Array(Math.floor((bytes * 3) / 8 / 4 / recordWords) * recordWords)
    this.#texts = new Uint16Array(Math.floor(bytes / 2 / 2))
  }

  clear(nowSeconds: number, halvings: number): void {
    this.domains.clear()
    this.length = 0
    this.startSeconds = nowSeconds
    this.halvings = Math.min(maxHalvings, halvings)
    this.#slots.fill(0)
    this.#units = 0
    this.#entries = 0
    this.#sealed = 0
    this.#checkpoint = 2
    this.#lastDomain = undefined
  }

  /** The used part of the memory that is full first, from 0 to 1. */
  used(): number {
    return Math.max(
      (this.length * recordWords) / this.#records.length,
      this.#units / this.#texts.length,
      (this.#entries * 2 * slotWords) / this.#slots.length,
    )
  }

  halve(): void {
    this.halvings = Math.min(maxHalvings, this.halvings + 1)
  }

  /** Counts a call of the domain, recorded or not. */
  count(domain: string): void {
    if (domain !== this.#lastDomain) {
      this.#lastCounts = this.domains.get(domain) ?? this.#newCounts(domain)
      this.#lastDomain = domain
    }
    this.#lastCounts.calls += 1
  }

  /**
   * Records the sampled descriptors of a call; one that is too long has none. Returns false without an effect
   * if there is no room.
   */
  record(request: DecisionRequest, nowSeconds: number): boolean {
    const units = hashCall(request, this.halvings)
    if (units === 0) return true
    const slot = this.#find()
    const records = this.#records
    const last = this.#slots[slot + 3] ?? 0
    const isKnown = this.#slots[slot + 2] !== 0
    const at = last * recordWords
    if (isKnown && last >= this.#sealed && records[at] === nowSeconds) {
      records[at + 2] = (records[at + 2] ?? 0) + 1
      return true
    }
    return this.#append(request, units, nowSeconds, slot, isKnown)
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
      writeCall(this.#texts, this.#units, request, this.halvings)
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
    this.#halveIfEarly(nowSeconds)
    return true
  }

  /** Halves the keys at a checkpoint that is reached before the time that is left for it. */
  #halveIfEarly(nowSeconds: number): void {
    if (this.used() * checkpoints < this.#checkpoint) return
    this.#checkpoint += 1
    const lasted = (nowSeconds - this.startSeconds) / this.#lastsSeconds
    if (lasted * checkpoints < this.#checkpoint - 2) this.halve()
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

  #newCounts(domain: string): { calls: number } {
    const counts = { calls: 0 }
    // Callers choose the names of domains.
    if (this.domains.size < maxDomains) this.domains.set(domain, counts)
    return counts
  }

  /** Later calls are not added to the present records. */
  seal(): void {
    this.#sealed = this.length
  }

  /** Reads the first `length` records, with the descriptors that remain after the halvings. */
  *read(domain: string, length: number, halvings: number): Generator<ReadStep, undefined> {
    let records = 0
    for (let index = 0; index < length; index++) {
      records += 1
      const call = this.#call(domain, index * recordWords, halvings)
      if (call === undefined && records < maxStepRecords) continue
      yield { call, records }
      records = 0
    }
    return undefined
  }

  /** Returns undefined for a call of another domain, and for one without a sampled descriptor. */
  #call(domain: string, at: number, halvings: number): RecordedCall | undefined {
    const offset = this.#records[at + 1] ?? 0
    if (!this.#isOf(domain, offset)) return undefined
    const seconds = this.#records[at] ?? 0
    const count = this.#records[at + 2] ?? 0
    const request = readCall(this.#texts, offset)
    const descriptors = request.descriptors.filter(({ entries }) => isSampled(entries, halvings))
    return descriptors.length === 0 ? undefined : { request: { ...request, descriptors }, seconds, count }
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
