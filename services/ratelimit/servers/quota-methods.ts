import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import { Semaphore } from '@tollway/chassis/limits/semaphore.ts'
import { quote } from '@tollway/chassis/text.ts'
import type { AnyMethod, Call, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { QuotaAssignment, QuotaBucket, QuotaBuckets, QuotaUsage } from '../quota/quota-buckets.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import type { Stats } from '../stats/stats.ts'
import { readEntry } from './decode-decision-request.ts'
import { delimited, messageSize, uintSize, varint, writeHead, writeUint } from './encode-decision.ts'
import { ProtobufReader } from './wire-reader.ts'

interface QuotaMethodsOptions {
  readonly buckets: Pick<QuotaBuckets, 'open' | 'count'>
  readonly stats: Stats
  readonly clock: Clock
  /** Ends all streams, which do not end by themselves, when the process stops. */
  readonly ending: AbortSignal
  /** The memory for the buckets of all streams. */
  readonly memoryBytes: number
}

/** An id that is longer is not kept, so its bucket gets no assignment. */
const maxIdBytes = 4096
/** The most buckets of one stream. Further ones get no assignment. */
const maxBuckets = 20_000
/** What a bucket of a stream takes with what is kept of its share. */
export const bytesOfBucket = 2200
/** What an id takes, which all streams have in common, besides its bytes, of which there are several copies. */
const bytesOfId = 600
const copiesOfId = 4
/** A map has no order, so the same id can have several spellings. */
const maxSpellings = 8
/** A turn of the event loop takes about two milliseconds for these. */
const usagesOfTurn = 500
/** The limits of numbers that a hostile proxy could send. */
const maxRequests = 1e12
const maxElapsedMs = 3_600_000

/**
 * Creates the method of envoy.service.rate_limit_quota.v3.RateLimitQuotaService. Field numbers are those of rlqs.proto.
 * A stream is a proxy in one domain; docs/decisions/0098 has what Envoy sends.
 */
export function quotaMethods(options: QuotaMethodsOptions): readonly AnyMethod[] {
  const ids = new KnownIds(options.memoryBytes)
  const turn = new Semaphore(1)
  let stats: QuotaStats | undefined
  const method: Method<Buffer, Uint8Array> = {
    path: '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas',
    kind: 'bidi',
    // A copy, because the connection uses the bytes again.
    decode: copyMessage,
    encode: bytes => bytes,
    handle(requests, call) {
      // The statistics exist from the first stream on: without one, there are only those of envoyproxy/ratelimit.
      stats ??= openQuotaStats(options, ids)
      return answerReports(requests, call, new KnownBuckets(ids), { ...options, stats, turn })
    },
  }
  return [method]
}

type QuotaStats = ReturnType<typeof openQuotaStats>

function openQuotaStats({ stats, buckets }: QuotaMethodsOptions, ids: KnownIds) {
  const name = (what: string) => `ratelimit.quota.${what}`
  stats.gauge(name('streams'), () => buckets.count().streams)
  stats.gauge(name('buckets'), () => buckets.count().buckets)
  stats.gauge(name('shares'), () => buckets.count().shares)
  stats.gauge(name('memory_bytes'), () => ids.usedBytes)
  return {
    streams: stats.counter('ratelimit_server.StreamRateLimitQuotas.total_requests'),
    assignments: stats.counter(name('assignments')),
    abandoned: stats.counter(name('abandoned_buckets')),
    rejected: stats.counter(name('rejected_buckets')),
  }
}

interface AnswerOptions extends Omit<QuotaMethodsOptions, 'stats'> {
  readonly stats: QuotaStats
  /** Large reports are answered one after the other: if all were at once, each would take as long as all. */
  readonly turn: Semaphore
}

async function* answerReports(
  requests: AsyncIterable<Buffer>,
  call: Call,
  known: KnownBuckets,
  { buckets, stats, clock, ending, turn }: AnswerOptions,
): AsyncGenerator<Uint8Array> {
  stats.streams.value += 1
  // One assignment for each bucket, so that nothing grows while a proxy does not read: what is abandoned without being
  // kept is told only to a proxy that has read everything before. Another one reports it again.
  let waiting: NamedBucket[] = []
  let wake = () => {}
  const send = (assignments: readonly QuotaAssignment[]) => {
    for (const assignment of assignments) {
      const bucket = assignment.bucket as NamedBucket
      if (bucket.waiting === undefined) waiting.push(bucket)
      bucket.waiting = assignment
    }
    wake()
  }
  const member = buckets.open(findIdentity(call), send)
  let isOver = ending.aborted
  const end = () => {
    isOver = true
    wake()
  }
  ending.addEventListener('abort', end)
  const answer = async ({ bytes, arrivedAtMs }: Arrived, isSuperseded: boolean) => {
    const hasReadAll = waiting.length === 0
    for (const { usages, abandoned, rejected } of known.read(bytes, arrivedAtMs)) {
      // What is reported after the end of the stream would never be closed.
      if (isOver) return
      stats.rejected.value += rejected
      if (hasReadAll) send(abandoned)
      send(await member.report(usages, isSuperseded))
      // Calls and timers do not wait for all reports that have arrived.
      await nextTurn()
    }
  }
  const read = async () => {
    let acquired: Promise<void> | undefined
    try {
      for await (const report of readAhead(requests, clock)) {
        if (report.bytes.length >= largeBytes) acquired ??= turn.acquire()
        await Promise.race([acquired, acquired && report.followed])
        const next = report.next()
        const isSuperseded = next !== undefined && hasBucketsOf(next, report.bytes)
        // The next report has the turn of this one, which takes much less time.
        if (!isSuperseded) await acquired
        await answer(report, isSuperseded)
        keepForReuse(report.bytes)
        if (isSuperseded || acquired === undefined) continue
        acquired = undefined
        turn.release()
      }
    } finally {
      void acquired?.then(() => turn.release())
    }
  }
  const reading = read().finally(end)
  // It is awaited at the end.
  reading.catch(() => {})
  try {
    while (!isOver) {
      if (waiting.length === 0) {
        await new Promise<void>(resolve => {
          wake = resolve
        })
        // What is pushed for several buckets in one turn of the event loop is one message.
        await nextTurn()
      } else {
        const told = waiting
        waiting = []
        const abandoned = told.filter(bucket => bucket.waiting?.action === 'abandon').length
        stats.abandoned.value += abandoned
        stats.assignments.value += told.length - abandoned
        yield known.encode(told)
      }
    }
    if (!ending.aborted) await reading
  } finally {
    ending.removeEventListener('abort', end)
    isOver = true
    member.close()
    known.close()
  }
}

interface Arrived {
  readonly bytes: Buffer
  readonly arrivedAtMs: number
  /** Resolves when the next message has arrived, or there is none. */
  readonly followed: Promise<void>
  /** Returns the next message if it has arrived. */
  next(): Buffer | undefined
}

/** Reads one message more than was asked for. */
async function* readAhead(requests: AsyncIterable<Buffer>, clock: Clock): AsyncGenerator<Arrived> {
  const iterator = requests[Symbol.asyncIterator]()
  let message: Pick<Arrived, 'bytes' | 'arrivedAtMs'> | undefined
  let failure: unknown
  const read = async () => {
    message = undefined
    try {
      const { value, done } = await iterator.next()
      if (!done) message = { bytes: value, arrivedAtMs: clock.monotonicMs() }
    } catch (error) {
      failure = error
    }
  }
  for (let reading = read(); ; ) {
    await reading
    if (failure !== undefined) throw failure
    const arrived = message
    if (arrived === undefined) return
    reading = read()
    yield { ...arrived, followed: reading, next: () => message?.bytes }
  }
}

/** From this size on, reports have turns, and the memory of messages is used again. */
const largeBytes = 64 * 1024

/**
 * Memory of large messages that have been read. Each megabyte of new buffers makes V8 collect the whole heap earlier,
 * which has all buckets.
 */
const spare: Buffer[] = []
const maxSpare = 4

function copyMessage(bytes: Buffer): Buffer {
  if (bytes.length < largeBytes) return Buffer.from(bytes)
  const place = spare.findIndex(({ length }) => length >= bytes.length)
  const [memory = Buffer.allocUnsafeSlow(bytes.length * 2)] = place < 0 ? [] : spare.splice(place, 1)
  bytes.copy(memory)
  return memory.subarray(0, bytes.length)
}

function keepForReuse({ length, buffer }: Buffer): void {
  if (length < largeBytes) return
  if (spare.length === maxSpare) spare.shift()
  spare.push(Buffer.from(buffer))
}

const maxIdentityLength = 256

/**
 * Returns what names the proxy, on its next streams also: the name that its configuration sends as `tollway-member`, or
 * its address. Envoy sends its own address in x-forwarded-for.
 */
function findIdentity({ metadata, peer }: Call): string {
  const named = metadata.get('tollway-member')?.[0] ?? metadata.get('x-forwarded-for')?.[0]
  const identity = typeof named === 'string' && named !== '' ? named : peer.replace(/:\d+$/, '')
  return identity.slice(0, maxIdentityLength)
}

/** The id of a bucket, which many proxies have. */
interface BucketId {
  readonly entries: readonly DescriptorEntry[]
  /** Its bytes as Latin-1, in each spelling that was seen. */
  readonly spellings: string[]
  /** The number of buckets with this id. */
  users: number
}

/** A bucket of one proxy. */
interface NamedBucket extends QuotaBucket {
  readonly id: BucketId
  /** The one that the proxy used last. */
  spelling: string
  /** What the proxy is told next. */
  waiting: QuotaAssignment | undefined
  reportedAtMs: number | undefined
  isForgotten: boolean
}

interface ReportPart {
  readonly usages: readonly QuotaUsage[]
  /** Those beyond the limits that had no requests: abandoned earlier, it would be reported again with its next one. */
  readonly abandoned: readonly QuotaAssignment[]
  /** The number of buckets beyond the limits. */
  readonly rejected: number
}

interface Usage {
  readonly start: number
  readonly end: number
  readonly allowed: number
  readonly denied: number
  /** The time that the proxy has sent; it may be negative. */
  readonly sentMs: number
}

/** The ids of the buckets of all streams. */
class KnownIds {
  readonly #bytes: number
  readonly #bySpelling = new Map<string, BucketId>()
  readonly #byEntries = new Map<string, BucketId>()
  #freeBytes: number

  constructor(memoryBytes: number) {
    this.#bytes = memoryBytes
    this.#freeBytes = memoryBytes
  }

  get usedBytes(): number {
    return this.#bytes - this.#freeBytes
  }

  get isFull(): boolean {
    return this.#freeBytes <= 0
  }

  /** Returns undefined for an id without entries. An unknown one is kept as soon as a bucket has it. */
  find(bytes: Buffer, spelling: string): BucketId | undefined {
    const known = this.#bySpelling.get(spelling)
    if (known !== undefined) return known
    const entries = readEntries(bytes)
    if (entries.length === 0) return undefined
    const same = this.#byEntries.get(toKey(entries))
    if (same === undefined) return { entries, spellings: [spelling], users: 0 }
    if (same.spellings.length < maxSpellings && !this.isFull) {
      same.spellings.push(spelling)
      this.#spell(same, spelling)
    }
    return same
  }

  take(id: BucketId): void {
    id.users += 1
    this.#freeBytes -= bytesOfBucket
    if (id.users > 1) return
    this.#byEntries.set(toKey(id.entries), id)
    for (const spelling of id.spellings) this.#spell(id, spelling)
  }

  leave(id: BucketId): void {
    id.users -= 1
    this.#freeBytes += bytesOfBucket
    if (id.users > 0) return
    this.#byEntries.delete(toKey(id.entries))
    for (const spelling of id.spellings) {
      this.#bySpelling.delete(spelling)
      this.#freeBytes += memoryOf(spelling)
    }
  }

  #spell(id: BucketId, spelling: string): void {
    this.#bySpelling.set(spelling, id)
    this.#freeBytes -= memoryOf(spelling)
  }
}

/** The buckets of one stream, and the codec of its messages. */
class KnownBuckets {
  readonly #ids: KnownIds
  readonly #buckets = new Map<BucketId, NamedBucket>()
  /** The buckets of the last periodic report. The next one usually has the same order. */
  #expected: readonly NamedBucket[] = []
  #domain = ''

  constructor(ids: KnownIds) {
    this.#ids = ids
  }

  /**
   * Reads a message in parts, so that the objects of one part are garbage before V8 takes them for long-lived ones.
   * Does not begin the next part before it is asked for. The bytes must not change meanwhile.
   *
   * @throws GrpcError INVALID_ARGUMENT for malformed bytes, and without the one domain of the stream
   */
  *read(bytes: Buffer, nowMs: number): Generator<ReportPart> {
    const reported: NamedBucket[] = []
    try {
      this.#checkDomain(bytes)
      const reader = new ProtobufReader(bytes)
      while (reader.at < reader.length) yield this.#readPart(bytes, reader, reported, nowMs)
    } catch (error) {
      if (error instanceof GrpcError) throw error
      throw new GrpcError('INVALID_ARGUMENT', `the message cannot be decoded: ${(error as Error).message}`)
    }
    if (reported.length > 1) this.#expected = reported
  }

  /** @param reported gets the buckets of the part */
  #readPart(bytes: Buffer, reader: ProtobufReader, reported: NamedBucket[], nowMs: number): ReportPart {
    const usages: QuotaUsage[] = []
    const abandoned: QuotaAssignment[] = []
    let rejected = 0
    while (reader.at < reader.length && usages.length + rejected < usagesOfTurn) {
      const tag = reader.tag()
      if (tag >>> 3 !== 2) {
        reader.skip(tag, 1)
        continue
      }
      const usage = readUsage(reader)
      const { allowed, denied, start, end } = usage
      const bucket = this.#find(bytes, start, end, this.#expected[reported.length])
      if (bucket !== undefined) {
        const elapsedMs = findElapsedMs(usage, bucket.reportedAtMs, nowMs)
        bucket.reportedAtMs = nowMs
        reported.push(bucket)
        usages.push({ bucket, allowed, denied, elapsedMs })
        continue
      }
      rejected += 1
      if (allowed + denied === 0 && end > start) {
        const spelling = bytes.toString('latin1', start, end)
        const bucket = this.#name({ entries: [], spellings: [], users: 0 }, spelling)
        abandoned.push({ bucket, action: 'abandon' })
      }
    }
    return { usages, abandoned, rejected }
  }

  /** Encodes what waits for the buckets as a RateLimitQuotaResponse. Those that are abandoned are forgotten. */
  encode(buckets: readonly NamedBucket[]): Uint8Array {
    let most = 0
    for (const { spelling } of buckets) most += maxActionBytes + spelling.length
    if (most > scratch.length) scratch = Buffer.allocUnsafeSlow(most)
    const bytes = scratch
    let at = 0
    for (const bucket of buckets) {
      const { waiting, spelling } = bucket
      bucket.waiting = undefined
      if (waiting === undefined) continue
      at = writeHead(bytes, at, delimited(1), actionSize(spelling, waiting))
      at = writeAction(bytes, at, spelling, waiting)
      if (waiting.action === 'abandon') this.#forget(bucket)
    }
    return Buffer.from(bytes.subarray(0, at))
  }

  close(): void {
    for (const bucket of this.#buckets.values()) this.#forget(bucket)
  }

  #checkDomain(bytes: Buffer): void {
    const reader = new ProtobufReader(bytes)
    let domain = ''
    while (reader.at < reader.length) {
      const tag = reader.tag()
      // The domain is the first field of any writer that writes in the order of numbers.
      if (tag >>> 3 === 2 && this.#domain !== '') break
      if (tag >>> 3 === 1) domain = reader.string()
      else reader.skip(tag, 1)
    }
    this.#domain ||= domain
    if (this.#domain === '') throw new GrpcError('INVALID_ARGUMENT', 'domain: must not be empty')
    if (domain === '' || domain === this.#domain) return
    const expected = `expected ${quote(this.#domain)} of the first report, since a stream has one domain`
    throw new GrpcError('INVALID_ARGUMENT', `domain: ${expected}, found ${quote(domain)}`)
  }

  /** Returns undefined for an id without entries, and for one that is beyond the limits. */
  #find(
    bytes: Buffer,
    start: number,
    end: number,
    expected: NamedBucket | undefined,
  ): NamedBucket | undefined {
    if (expected !== undefined && !expected.isForgotten && equals(bytes, start, end, expected.spelling)) {
      return expected
    }
    if (end === start || end - start > maxIdBytes) return undefined
    const spelling = bytes.toString('latin1', start, end)
    const id = this.#ids.find(bytes.subarray(start, end), spelling)
    if (id === undefined) return undefined
    // The same string for all proxies: there may be a million.
    const kept = id.spellings.find(each => each === spelling) ?? spelling
    const known = this.#buckets.get(id)
    if (known !== undefined) {
      known.spelling = kept
      return known
    }
    if (this.#buckets.size >= maxBuckets || this.#ids.isFull) return undefined
    this.#ids.take(id)
    const bucket = this.#name(id, kept)
    this.#buckets.set(id, bucket)
    return bucket
  }

  #name(id: BucketId, spelling: string): NamedBucket {
    return {
      domain: this.#domain,
      entries: id.entries,
      holding: undefined,
      id,
      spelling,
      waiting: undefined,
      reportedAtMs: undefined,
      isForgotten: false,
    }
  }

  #forget(bucket: NamedBucket): void {
    bucket.isForgotten = true
    if (this.#buckets.delete(bucket.id)) this.#ids.leave(bucket.id)
  }
}

const memoryOf = (spelling: string) => bytesOfId + copiesOfId * spelling.length

const toKey = (entries: readonly DescriptorEntry[]) =>
  JSON.stringify(entries.map(({ key, value }) => [key, value]))

function equals(bytes: Buffer, start: number, end: number, spelling: string): boolean {
  if (end - start !== spelling.length) return false
  // The ends of ids differ more often than their beginnings.
  for (let at = end - 1; at >= start; at--) if (bytes[at] !== spelling.charCodeAt(at - start)) return false
  return true
}

/**
 * Whether a report has each bucket that had requests in an earlier one, in the same order. Returns false for malformed
 * ones.
 */
function hasBucketsOf(report: Buffer, earlier: Buffer): boolean {
  try {
    const [reader, expected] = [new ProtobufReader(report), new ProtobufReader(earlier)]
    for (let usage = nextUsage(expected); usage !== undefined; usage = nextUsage(expected)) {
      if (usage.allowed + usage.denied === 0) continue
      let found: Usage | undefined
      do found = nextUsage(reader)
      while (
        found !== undefined &&
        report.compare(earlier, usage.start, usage.end, found.start, found.end) !== 0
      )
      if (found === undefined) return false
    }
    return true
  } catch {
    return false
  }
}

/** Returns undefined after the last one. */
function nextUsage(reader: ProtobufReader): Usage | undefined {
  while (reader.at < reader.length) {
    const tag = reader.tag()
    if (tag >>> 3 === 2) return readUsage(reader)
    reader.skip(tag, 1)
  }
  return undefined
}

function readUsage(reader: ProtobufReader): Usage {
  const end = reader.messageEnd()
  let idStart = 0
  let idEnd = 0
  let allowed = 0
  let denied = 0
  let sentMs = 0
  while (reader.at < end) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        idEnd = reader.messageEnd()
        idStart = reader.at
        if (idEnd > end) throw new RangeError('the message ends too early')
        reader.at = idEnd
        break
      case 2:
        sentMs = reader.durationMs(3)
        break
      case 3:
        allowed = Math.min(reader.uint64(), maxRequests)
        break
      case 4:
        denied = Math.min(reader.uint64(), maxRequests)
        break
      default:
        reader.skip(tag, 2)
    }
  }
  return { start: idStart, end: idEnd, allowed, denied, sentMs }
}

/** Reads the entries of a BucketId, in the order of their keys. */
function readEntries(id: Buffer): readonly DescriptorEntry[] {
  const reader = new ProtobufReader(id)
  const entries = new Map<string, string>()
  while (reader.at < reader.length) {
    const tag = reader.tag()
    if (tag >>> 3 !== 1) {
      reader.skip(tag, 1)
      continue
    }
    const { key, value } = readEntry(reader)
    entries.set(key, value)
  }
  return Array.from(entries, ([key, value]) => ({ key, value })).sort((one, other) =>
    one.key < other.key ? -1 : 1,
  )
}

/**
 * Returns the time since the last report of a bucket. Envoy rounds it down to seconds, so that 4.999 s are 4 s: the time
 * between the arrivals of both reports is taken instead if it rounds down to the same. 0 for the first report.
 */
function findElapsedMs({ sentMs: sent }: Usage, reportedAtMs: number | undefined, nowMs: number): number {
  const sentMs = sent < 0 ? maxElapsedMs : Math.min(sent, maxElapsedMs)
  if (reportedAtMs === undefined || sentMs % 1000 !== 0) return sentMs
  return Math.min(Math.max(nowMs - reportedAtMs, sentMs), sentMs + 1000)
}

/** A BucketAction has less besides its id. */
const maxActionBytes = 64
/** Answers are written here before they are copied, because their size is known then. */
let scratch = Buffer.allocUnsafeSlow(usagesOfTurn * 2 * maxActionBytes)

/** Returns the size of a BucketAction, whose bytes `writeAction` writes. */
function actionSize(spelling: string, assignment: QuotaAssignment): number {
  const size = messageSize(spelling.length)
  if (assignment.action === 'abandon') return size + messageSize(0)
  return size + messageSize(assignmentSize(assignment))
}

type Assigned = Exclude<QuotaAssignment, { readonly action: 'abandon' }>

const assignmentSize = (assigned: Assigned) =>
  messageSize(uintSize(assigned.ttlSeconds)) + messageSize(strategySize(assigned))

/** A blanket rule is written also if it is 0, since it is the choice of a oneof. */
const strategySize = (assigned: Assigned) =>
  assigned.action === 'allow' ? 2 : messageSize(tokenBucketSize(assigned))

const tokenBucketSize = (limit: Assigned & { readonly action: 'limit' }) =>
  uintSize(limit.maxTokens) +
  messageSize(uintSize(limit.tokensPerFill)) +
  messageSize(uintSize(limit.fillIntervalSeconds))

/** Returns the index after the written bytes. */
function writeAction(bytes: Buffer, start: number, spelling: string, assignment: QuotaAssignment): number {
  let at = writeHead(bytes, start, delimited(1), spelling.length)
  at += bytes.write(spelling, at, 'latin1')
  if (assignment.action === 'abandon') return writeHead(bytes, at, delimited(3), 0)
  at = writeHead(bytes, at, delimited(2), assignmentSize(assignment))
  at = writeNumber(bytes, at, 2, assignment.ttlSeconds)
  at = writeHead(bytes, at, delimited(3), strategySize(assignment))
  if (assignment.action === 'allow') return writeHead(bytes, at, varint(1), 0)
  at = writeHead(bytes, at, delimited(3), tokenBucketSize(assignment))
  at = writeUint(bytes, at, varint(1), assignment.maxTokens)
  at = writeNumber(bytes, at, 2, assignment.tokensPerFill)
  return writeNumber(bytes, at, 3, assignment.fillIntervalSeconds)
}

/** Writes a message whose field 1 is the number, such as Duration and UInt32Value. */
function writeNumber(bytes: Buffer, start: number, field: number, value: number): number {
  const at = writeHead(bytes, start, delimited(field), uintSize(value))
  return writeUint(bytes, at, varint(1), value)
}
