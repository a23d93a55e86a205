import { pluralize } from '@tollway/chassis/text.ts'
import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { RouteStats } from '../broker-stats.ts'
import type { Route } from '../routes/route.ts'
import { type LoggedRequest, LogRejection, type RingCursor } from '../stream-log/stream-log.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { encodeStatusMessage, type Status } from '../wire/status.ts'
import { type Beginning, seekBeginning } from './late-join.ts'
import { type StreamContext, startRequestSpan } from './stream-context.ts'

interface DeliveryOptions {
  readonly request: LoggedRequest
  readonly route: Route
  readonly beginning: Beginning
  /** When the pull began, in milliseconds since the epoch. */
  readonly pulledMs: number
  /** Whether the delivery is served at once, and already counts as a consumer; otherwise it is queued. */
  readonly isServed: boolean
  /** Whether the consumer gets the name of the run, with which it can resume. */
  readonly namesRun: boolean
  readonly notices: PullNotices
  onReadable(): void
  /** Called if the request cannot be read; without an error if no entry is kept any more. */
  onUnreadable(error: GrpcError | undefined): void
}

/**
 * The delivery of one request to one consumer: the header, the entries in order, a status for each gap with
 * the number of the next message, and a status at the end.
 *
 * A delivery has a position in the request as soon as the request has matched the pull, but holds entries
 * only while it is served. Before that no producer waits for it, and dropped entries are a gap.
 */
export class Delivery {
  readonly request: LoggedRequest
  readonly route: Route
  readonly #context: StreamContext
  readonly #pulledMs: number
  readonly #stats: RouteStats
  readonly #beginning: Beginning
  readonly #notices: PullNotices
  #cursor: RingCursor | undefined
  #header: Uint8Array | undefined
  #beginsAt = 0
  /** Statuses of the broker that are sent after the header. */
  readonly #joinStatuses: Status[] = []
  readonly #namesRun: boolean
  #stopped: Status | undefined
  #isServed: boolean
  /** The number of sent messages, including statuses of the broker. */
  #sent = 0
  #gap = 0
  #over = false
  #closed = false
  #span: Span | undefined

  constructor(context: StreamContext, options: DeliveryOptions) {
    this.#context = context
    this.request = options.request
    this.route = options.route
    this.#pulledMs = options.pulledMs
    this.#stats = context.stats.route(options.route.name)
    this.#beginning = options.beginning
    this.#namesRun = options.namesRun
    this.#notices = options.notices
    this.#isServed = options.isServed
    this.request.read({ onReadable: options.onReadable, waiting: !options.isServed }).then(
      cursor => {
        if (this.#closed) return cursor.close()
        this.#open(cursor)
        options.onReadable()
      },
      (error: unknown) => {
        if (!this.#closed) options.onUnreadable(toReadError(error))
      },
    )
  }

  #open(cursor: RingCursor): void {
    this.#cursor = cursor
    this.#header = cursor.next()?.bytes
    const skipped = seekBeginning(cursor, this.#beginning)
    this.#beginsAt = cursor.position
    if (this.#namesRun) {
      this.#joinStatuses.push({
        code: 'INFO',
        message: `run ${this.request.key}, ${describeNext(this.#beginsAt)}`,
      })
    }
    if (skipped > 0) this.#joinStatuses.push(createJoinNotice(this.#beginning, skipped, this.#beginsAt))
    if (this.#isServed) cursor.hold()
  }

  /**
   * Makes the delivery count as a consumer and hold entries. Returns false if the request has as many
   * consumers as its route allows.
   */
  beginServing(): boolean {
    const { consumersOfRequest } = this.#context
    this.#isServed ||= consumersOfRequest.take(this.request.key, this.route.limits.consumers)
    if (this.#isServed) this.#cursor?.hold()
    return this.#isServed
  }

  /** Whether the header was sent. */
  get begun(): boolean {
    return this.#sent > 0
  }

  /** Whether everything was sent. */
  get over(): boolean {
    return this.#over
  }

  get behind(): RingCursor['behind'] {
    return this.#cursor?.behind ?? noBacklog
  }

  /**
   * Returns the next message; undefined if there is none yet, and at the end.
   *
   * @throws GrpcError if the consumer must be cut off
   */
  next(): Uint8Array | undefined {
    if (this.#cursor === undefined || this.#over) return undefined
    const bytes = this.#nextBytes(this.#cursor)
    if (bytes === undefined) return undefined
    this.#sent += 1
    const { counters } = this.#stats
    counters.messages_out += 1
    counters.bytes_out += bytes.length
    if (this.#sent === 1) {
      counters.requests_served += 1
      this.#span = startRequestSpan(this.#context, 'Pull', this.request)
    } else if (this.#sent === 2) this.#recordWait()
    return bytes
  }

  #nextBytes(cursor: RingCursor): Uint8Array | undefined {
    if (this.#sent === 0) return this.#header
    if (this.#stopped !== undefined) return this.#finishWith(this.#stopped)
    const status = this.#joinStatuses.shift()
    if (status !== undefined) return encodeStatusMessage(status)
    if (this.#countGap(cursor) > 0) return this.#announceGap(cursor)
    return this.#nextNotice(cursor) ?? cursor.next()?.bytes ?? this.#nextAtEnd(cursor)
  }

  /** Makes the status the next message and the last. Producers no longer wait for this consumer. */
  stop(status: Status): void {
    this.#stopped = status
    this.#cursor?.close()
  }

  /**
   * Checks for dropped entries even if the consumer does not read.
   *
   * @throws GrpcError if the consumer must be cut off
   */
  sweep(): void {
    if (this.route.slowConsumers !== 'cut-off' || this.#sent <= 1 || this.#cursor === undefined) return
    const gap = this.#countGap(this.#cursor)
    if (gap > 0) this.#recordGap(gap)
  }

  /** @param problem why the request was not delivered completely, if it was not */
  close(problem?: string): void {
    if (this.#closed) return
    this.#closed = true
    this.#cursor?.close()
    this.#span?.end(problem)
    if (this.#isServed) this.#context.consumersOfRequest.release(this.request.key)
  }

  /**
   * Returns the next notice if another entry follows it: the last status must be the producer's. The notice
   * has the number of that entry, because a consumer that resumes counts the messages of the request without
   * notices.
   */
  #nextNotice(cursor: RingCursor): Uint8Array | undefined {
    const notice = this.#notices.isEmpty || cursor.behind.entries === 0 ? undefined : this.#notices.take()
    if (notice === undefined) return undefined
    return encodeStatusMessage({ ...notice, message: `${notice.message}, ${describeNext(cursor.position)}` })
  }

  /** Returns how many entries were dropped of which the consumer has not been notified. */
  #countGap(cursor: RingCursor): number {
    this.#gap += cursor.takeGap()
    return this.#gap
  }

  #announceGap(cursor: RingCursor): Uint8Array {
    const messages = this.#gap
    this.#recordGap(messages)
    this.#gap = 0
    const dropped = `${pluralize(messages, 'message was', 'messages were')} dropped`
    return encodeStatusMessage({ code: 'WARNING', message: `${dropped}, ${describeNext(cursor.position)}` })
  }

  #recordGap(messages: number): void {
    const { counters } = this.#stats
    counters.messages_dropped += messages
    // Entries that were dropped in the queue are not the fault of a slow consumer.
    if (this.route.slowConsumers !== 'cut-off' || this.#sent <= 1) return
    counters.consumers_cut_off += 1
    const { bufferBytes, bufferSeconds } = this.route.limits
    const kept = `${bufferBytes} bytes or ${bufferSeconds} s`
    const behind = pluralize(messages, 'message', 'messages')
    throw new GrpcError('RESOURCE_EXHAUSTED', `too slow: ${behind} behind what is kept, ${kept}`)
  }

  #finishWith(status: Status): Uint8Array {
    this.#over = true
    return encodeStatusMessage(status)
  }

  #nextAtEnd(cursor: RingCursor): Uint8Array | undefined {
    const { end } = cursor
    if (end === undefined) return undefined
    if (end.how !== 'completed') return this.#finishWith(end.status)
    this.#over = true
    if (cursor.position > this.#beginsAt || this.#beginsAt <= 1) return undefined
    // A consumer that joins after the last status of the producer gets that status too.
    cursor.seek('last')
    return cursor.next()?.bytes
  }

  #recordWait(): void {
    const waitedMs = this.#context.clock.nowMs() - Math.max(this.#pulledMs, this.request.openedMs)
    this.#stats.histograms.time_to_first_message_ms.record(Math.max(0, waitedMs))
  }
}

const noBacklog = { entries: 0, bytes: 0 }

function toReadError(error: unknown): GrpcError | undefined {
  if (error instanceof LogRejection && error.reason === 'expired') return undefined
  return new GrpcError('UNAVAILABLE', (error as Error).message)
}

function createJoinNotice({ at }: Beginning, skipped: number, position: number): Status {
  const next = describeNext(position)
  if (at !== 'message') return { code: 'INFO', message: `joined late, ${next}` }
  const expired = `${pluralize(skipped, 'message is', 'messages are')} not kept any more`
  return { code: 'WARNING', message: `${expired}, ${next}` }
}

/** Returns the end of each status of the broker that another message follows. */
const describeNext = (position: number) => `the next is message ${position}`

/** At most this many warnings wait for a consumer; further ones are left out. */
const maxNotices = 8

/**
 * Warnings of the broker to a consumer. Each is sent before the next message: of the served request or, if
 * there is none, of the next request.
 */
export class PullNotices {
  readonly #queue: Status[] = []

  add(message: string): void {
    if (this.#queue.length < maxNotices) this.#queue.push({ code: 'WARNING', message })
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  take(): Status | undefined {
    return this.#queue.shift()
  }
}

export const describeSkipped = (reason: string): string => `left out: ${reason}`

export function tooManyConsumers(ids: string, { limits: { consumers } }: Route): string {
  const many = pluralize(consumers, 'consumer, which is', 'consumers, which are')
  return `the request ${ids} has ${many} all that its route allows`
}

/**
 * Returns the request id. If several requests could have that id, also the ids that the pull does not name.
 */
export function describeRequest(
  { requestId, streamId, targetObjectId }: AnimationIds,
  wanted: AnimationIds,
): string {
  const stream = wanted.streamId === '' ? ` of the stream ${JSON.stringify(streamId)}` : ''
  const isNameless = requestId === '' && targetObjectId !== wanted.targetObjectId
  return `${JSON.stringify(requestId)}${stream}${isNameless ? ` for ${JSON.stringify(targetObjectId)}` : ''}`
}
