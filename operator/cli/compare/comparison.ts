import { statusName } from '@tollway/grpc/status.ts'
import { isDecided, type Outcome } from './ask-peer.ts'
import { type ComparedFields, type Difference, findDifferences } from './find-differences.ts'
import { LatencyHistogram } from './latency-histogram.ts'

const maxExamples = 100
/**
 * The most examples of one field of one descriptor, so that one frequent difference does not hide the others.
 */
const maxExamplesOfField = 2
const maxDescriptors = 1_000
const otherDescriptors = 'other descriptors'

/** The results of one request. */
export interface Pair {
  /** `line 7` or `call 7`. */
  readonly place: string
  /** The encoded RateLimitRequest. */
  readonly request: Uint8Array
  readonly reference: Outcome
  readonly candidate: Outcome
}

/** The calls of one service. */
export interface PeerReport {
  readonly answers: number
  /** Counts by status code. */
  readonly errors: Readonly<Record<string, number>>
  readonly latencyMs: Readonly<Record<'p50' | 'p99' | 'p999' | 'max', number>>
}

export interface DescriptorReport {
  readonly descriptor: string
  /** The number of requests whose answers differ for this descriptor. */
  readonly different: number
  /** Counts by field. */
  readonly fields: Readonly<Record<string, number>>
}

export interface ComparisonReport {
  readonly same: number
  readonly different: number
  /** The requests that both services decided. */
  readonly decidedByBoth: number
  /** The requests without a decision of the reference: no connection, or no answer in time. */
  readonly notCompared: number
  /** The calls of the proxy that were not sent to the candidate, because too many waited for it. */
  readonly dropped: number
  /** The traffic of the proxy that was passed on and not compared. */
  readonly unread: {
    /** The connections that were not read to their end. The number of calls in the rest is unknown. */
    readonly connections: number
    /** The bytes of the rest of these connections. */
    readonly bytes: number
    /** The calls whose messages are compressed or malformed, or had no room in the memory. */
    readonly calls: number
  }
  readonly reference: PeerReport
  readonly candidate: PeerReport
  /** The most frequent first; at most 1,000, and one row for all others. */
  readonly descriptors: readonly DescriptorReport[]
  /** Examples: at most 100, and at most 2 of one field of one descriptor. */
  readonly examples: readonly (Difference & { readonly place: string })[]
}

/** Sums the results of a run in bounded memory: it limits the number and the length of what it keeps. */
export class Comparison {
  readonly #compared: ComparedFields
  readonly #reference = new PeerSums()
  readonly #candidate = new PeerSums()
  readonly #descriptors = new Map<string, { different: number; fields: Map<string, number> }>()
  readonly #examples: (Difference & { readonly place: string })[] = []
  #same = 0
  #different = 0
  #decidedByBoth = 0
  #notCompared = 0
  #dropped = 0

  constructor(compared: ComparedFields) {
    this.#compared = compared
  }

  /** Adds the results of one request that was sent to both. */
  add({ place, request, reference, candidate }: Pair): void {
    this.#candidate.add(candidate)
    if (!isDecided(reference)) {
      this.addUndecided(reference)
      return
    }
    this.#reference.add(reference)
    if (isDecided(candidate)) this.#decidedByBoth += 1
    const differences = findDifferences(request, reference, candidate, this.#compared)
    if (differences.length === 0) this.#same += 1
    else this.#different += 1
    const descriptors = new Set<string>()
    for (const difference of differences) {
      descriptors.add(this.#countField(difference))
      this.#keepExample({ place, ...difference })
    }
    for (const descriptor of descriptors) this.#sumsOf(descriptor).different += 1
  }

  /** Adds a request that the reference did not decide. */
  addUndecided(reference: Outcome): void {
    this.#reference.add(reference)
    this.#notCompared += 1
  }

  /** Adds a request that the reference decided, and that was not sent to the candidate. */
  addDropped(reference: Outcome): void {
    this.#reference.add(reference)
    this.#dropped += 1
  }

  report(): ComparisonReport {
    const descriptors = [...this.#descriptors]
      .map(([descriptor, { different, fields }]) => ({
        descriptor,
        different,
        fields: Object.fromEntries(fields),
      }))
      .sort((a, b) => b.different - a.different)
    return {
      same: this.#same,
      different: this.#different,
      decidedByBoth: this.#decidedByBoth,
      notCompared: this.#notCompared,
      dropped: this.#dropped,
      unread: { connections: 0, bytes: 0, calls: 0 },
      reference: this.#reference.report(),
      candidate: this.#candidate.report(),
      descriptors,
      examples: [...this.#examples],
    }
  }

  #keepExample(example: Difference & { readonly place: string }): void {
    if (this.#examples.length >= maxExamples) return
    const { descriptor, field } = example
    const known = this.#examples.filter(kept => kept.descriptor === descriptor && kept.field === field)
    if (known.length < maxExamplesOfField) this.#examples.push(example)
  }

  /** Counts the field; returns the descriptor whose row has it. */
  #countField({ descriptor, field }: Difference): string {
    const isKept = this.#descriptors.has(descriptor) || this.#descriptors.size < maxDescriptors
    const row = isKept ? descriptor : otherDescriptors
    const { fields } = this.#sumsOf(row)
    fields.set(field, (fields.get(field) ?? 0) + 1)
    return row
  }

  #sumsOf(descriptor: string) {
    let sums = this.#descriptors.get(descriptor)
    if (sums === undefined) {
      sums = { different: 0, fields: new Map() }
      this.#descriptors.set(descriptor, sums)
    }
    return sums
  }
}

class PeerSums {
  readonly #latencies = new LatencyHistogram()
  readonly #errors = new Map<string, number>()
  #answers = 0

  add(outcome: Outcome): void {
    this.#latencies.record(outcome.tookMs)
    if ('answer' in outcome) {
      this.#answers += 1
      return
    }
    const name = statusName(outcome.error.code)
    this.#errors.set(name, (this.#errors.get(name) ?? 0) + 1)
  }

  report(): PeerReport {
    const round = (ms: number) => Math.round(ms * 100) / 100
    const [p50 = 0, p99 = 0, p999 = 0] = [0.5, 0.99, 0.999].map(share =>
      round(this.#latencies.quantile(share)),
    )
    const latencyMs = { p50, p99, p999, max: round(this.#latencies.maxMs) }
    return { answers: this.#answers, errors: Object.fromEntries(this.#errors), latencyMs }
  }
}
