import { bucketRangeMs, Histogram, quantileBucket } from '@tollway/chassis/metrics/histogram.ts'
import { statusName } from '@tollway/grpc/status.ts'
import { renderTable } from '../render.ts'
import { type ComparedFields, type Difference, findDifferences } from './find-differences.ts'
import { type CallOutcome, isDecided } from './peer.ts'

const maxExamples = 100
/** The most examples for one field of one descriptor, so that a frequent difference does not hide others. */
const maxExamplesOfField = 2
const maxDescriptors = 1_000
const otherDescriptors = 'other descriptors'

interface Pair {
  /** `line 7` of the file, or `call 7` of the proxy. */
  readonly place: string
  /** The encoded RateLimitRequest. */
  readonly request: Uint8Array
  readonly reference: CallOutcome
  readonly candidate: CallOutcome
}

interface PeerReport {
  readonly answers: number
  /** The number of errors by the name of their status. */
  readonly errors: Readonly<Record<string, number>>
  /** The latencies of the calls in milliseconds; 0 without calls. All but `max` may be up to 5 % too long. */
  readonly latencyMs: Readonly<Record<'p50' | 'p99' | 'p999' | 'max', number>>
}

interface DescriptorReport {
  readonly descriptor: string
  /** The requests whose answers differ for this descriptor. */
  readonly different: number
  readonly fields: Readonly<Record<string, number>>
}

export interface ComparisonReport {
  readonly same: number
  readonly different: number
  /** The number of requests that both services decided. */
  readonly decidedByBoth: number
  /** The requests that the reference did not decide: without a connection, or without an answer in time. */
  readonly notCompared: number
  /** The proxied calls that were not sent to the candidate, because too many waited for it. */
  readonly dropped: number
  /** Traffic that the proxy forwarded, but that was not compared. */
  readonly unread: {
    /** The connections that were not read to their end, with an unknown number of calls in the rest. */
    readonly connections: number
    /** The bytes in the rest of these connections. */
    readonly bytes: number
    /** The calls whose messages are compressed or malformed, or did not fit into the memory. */
    readonly calls: number
  }
  readonly reference: PeerReport
  readonly candidate: PeerReport
  /** The most frequent descriptors first: at most 1,000, and one row for all others. */
  readonly descriptors: readonly DescriptorReport[]
  /** Examples of differences: at most 100, and at most 2 for each field of a descriptor. */
  readonly examples: readonly (Difference & { readonly place: string })[]
}

/** Sums up the outcomes of a run, in bounded memory. */
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
    for (const descriptor of descriptors) this.#getSums(descriptor).different += 1
  }

  addUndecided(reference: CallOutcome): void {
    this.#reference.add(reference)
    this.#notCompared += 1
  }

  /** Adds a request that the candidate did not get. */
  addDropped(reference: CallOutcome): void {
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

  /** Returns the name of the row: the descriptor, or `other descriptors`. */
  #countField({ descriptor, field }: Difference): string {
    const isKept = this.#descriptors.has(descriptor) || this.#descriptors.size < maxDescriptors
    const row = isKept ? descriptor : otherDescriptors
    const { fields } = this.#getSums(row)
    fields.set(field, (fields.get(field) ?? 0) + 1)
    return row
  }

  #getSums(descriptor: string) {
    let sums = this.#descriptors.get(descriptor)
    if (sums === undefined) {
      sums = { different: 0, fields: new Map() }
      this.#descriptors.set(descriptor, sums)
    }
    return sums
  }
}

class PeerSums {
  readonly #latencies = new Histogram()
  readonly #errors = new Map<string, number>()
  #answers = 0
  #maxMs = 0

  add(outcome: CallOutcome): void {
    this.#latencies.record(outcome.tookMs)
    this.#maxMs = Math.max(this.#maxMs, outcome.tookMs)
    if ('answer' in outcome) {
      this.#answers += 1
      return
    }
    const name = statusName(outcome.error.code)
    this.#errors.set(name, (this.#errors.get(name) ?? 0) + 1)
  }

  report(): PeerReport {
    const [p50 = 0, p99 = 0, p999 = 0, max = 0] = [0.5, 0.99, 0.999, 1].map(share => {
      const bucket = quantileBucket(this.#latencies.counts, share)
      const ms = bucket === undefined ? 0 : Math.min(bucketRangeMs(bucket).toMs, this.#maxMs)
      return Math.round(ms * 100) / 100
    })
    const errors = Object.fromEntries(this.#errors)
    return { answers: this.#answers, errors, latencyMs: { p50, p99, p999, max } }
  }
}

const maxRows = 50

export function describeReport(report: ComparisonReport): string {
  const { descriptors, examples, reference, candidate } = report
  const peers = renderTable(
    ['SERVICE', 'ANSWERS', 'ERRORS', 'P50 MS', 'P99 MS', 'P99.9 MS', 'MAX MS'],
    [peerRow('reference', reference), peerRow('candidate', candidate)],
  )
  const parts = [`${summarize(report)}\n`, peers]
  if (descriptors.length > 0) {
    const rows = descriptors.slice(0, maxRows)
    parts.push(
      renderTable(
        ['DESCRIPTOR', 'DIFFERENT', 'FIELDS'],
        rows.map(({ descriptor, different, fields }) => [descriptor, `${different}`, counts(fields)]),
      ),
      renderTable(
        ['EXAMPLE', 'DESCRIPTOR', 'FIELD', 'REFERENCE', 'CANDIDATE'],
        examples
          .slice(0, maxRows)
          .map(({ place, descriptor, field, ...both }) => [
            place,
            descriptor,
            field,
            both.reference,
            both.candidate,
          ]),
      ),
    )
  }
  return parts.join('\n')
}

export function summarize({ same, different, notCompared, dropped, unread }: ComparisonReport): string {
  const requests = same + different + notCompared + dropped
  const parts = [`${same} same`, `${different} different`]
  if (notCompared > 0) parts.push(`${notCompared} not compared: the reference did not answer`)
  if (dropped > 0) parts.push(`${dropped} not sent to the candidate: too many waited for it`)
  if (unread.connections > 0)
    parts.push(`${unread.connections} connections not read to their end (${unread.bytes} bytes)`)
  if (unread.calls > 0) parts.push(`${unread.calls} calls not read`)
  return `${requests} requests: ${parts.join(', ')}`
}

function peerRow(name: string, { answers, errors, latencyMs }: PeerReport): readonly string[] {
  const { p50, p99, p999, max } = latencyMs
  return [name, `${answers}`, counts(errors) || 'none', `${p50}`, `${p99}`, `${p999}`, `${max}`]
}

const counts = (of: Readonly<Record<string, number>>) =>
  Object.entries(of)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
