import type { Span } from '@tollway/chassis/tracing.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { type LoggedRequest, LogRefusal, type RingCursor, type RingReader } from '../log/stream-log.ts'
import type { Route } from '../routes/route.ts'
import type { RouteStats } from '../stats/broker-stats.ts'
import type { Status } from '../wire/status.ts'
import { howMany } from './how-many.ts'
import type { Beginning } from './late-join.ts'
import { Reading } from './reading.ts'
import { startRequestSpan } from './request-span.ts'
import type { StreamContext } from './stream-context.ts'

export interface ServingOptions {
  readonly request: LoggedRequest
  readonly route: Route
  readonly beginning: Beginning
  /** When the pull began, in milliseconds since the epoch. */
  readonly pulledMs: number
  /** It is ready, or there is more to be had. */
  onNews(): void
  /** It cannot be read: undefined when nothing is kept of it any more. */
  onUnreadable(error: GrpcError | undefined): void
}

/**
 * One request in one pull, from the time that it matches: its turn, its messages, and what is counted. It begins to
 * read at once, so that nothing is missed while others have their turn.
 */
export class Serving {
  readonly request: LoggedRequest
  readonly route: Route
  readonly #context: StreamContext
  readonly #pulledMs: number
  readonly #stats: RouteStats
  #reading: Reading | undefined
  #left = false
  #sent = 0
  #span: Span | undefined

  constructor(context: StreamContext, options: ServingOptions) {
    this.#context = context
    this.request = options.request
    this.route = options.route
    this.#pulledMs = options.pulledMs
    this.#stats = context.stats.route(options.route.name)
    const reader: RingReader = { onNews: options.onNews }
    this.request.read(reader).then(
      cursor => {
        if (this.#left) return cursor.close()
        this.#reading = new Reading(cursor, options.beginning, messages => this.#onGap(messages))
        options.onNews()
      },
      (error: unknown) => {
        if (!this.#left) options.onUnreadable(errorOfLog(error))
      },
    )
  }

  /** The log lets it be read. */
  get ready(): boolean {
    return this.#reading !== undefined
  }

  /** Its turn has come. */
  begin(): void {
    this.#stats.counters.requests_served += 1
    this.#span = startRequestSpan(this.#context, 'Pull', this.request)
  }

  /**
   * The next message, as `Reading.next`.
   *
   * @throws GrpcError when the consumer is to be cut off
   */
  next(): Uint8Array | undefined {
    const bytes = this.#reading?.next()
    if (bytes === undefined) return undefined
    this.#sent += 1
    if (this.#sent === 2) this.#noteFirst()
    const { counters } = this.#stats
    counters.messages_out += 1
    counters.bytes_out += bytes.length
    return bytes
  }

  /** Everything was given. */
  get over(): boolean {
    return this.#reading?.over === true
  }

  tell(status: Status): void {
    this.#reading?.tell(status)
  }

  stop(status: Status): void {
    this.#reading?.stop(status)
  }

  /** @throws GrpcError when the consumer is to be cut off, though it does not ask for the next message */
  sweep(): void {
    const gap = this.route.slowConsumers === 'cut-off' && this.#sent > 1 ? (this.#reading?.gap ?? 0) : 0
    if (gap > 0) this.#onGap(gap)
  }

  get behind(): RingCursor['behind'] {
    return this.#reading?.behind ?? nothing
  }

  /** Gives it up, with the problem when it was not served whole. */
  leave(problem?: string): void {
    if (this.#left) return
    this.#left = true
    this.#reading?.close()
    this.#span?.end(problem)
    this.#context.consumersOfRequest.release(this.request.key)
  }

  #onGap(messages: number): void {
    const { counters } = this.#stats
    counters.messages_dropped += messages
    // What was lost in the queue is not the fault of a slow consumer.
    if (this.route.slowConsumers !== 'cut-off' || this.#sent <= 1) return
    counters.consumers_cut_off += 1
    const { bufferBytes, bufferSeconds } = this.route.limits
    const kept = `${bufferBytes} bytes or ${bufferSeconds} s`
    const behind = howMany(messages, 'message', 'messages')
    throw new GrpcError('RESOURCE_EXHAUSTED', `too slow: ${behind} behind what is kept, ${kept}`)
  }

  #noteFirst(): void {
    const waitedMs = this.#context.clock.nowMs() - Math.max(this.#pulledMs, this.request.openedMs)
    this.#stats.histograms.time_to_first_message_ms.record(Math.max(0, waitedMs))
  }
}

const nothing = { entries: 0, bytes: 0 }

function errorOfLog(error: unknown): GrpcError | undefined {
  if (error instanceof LogRefusal && error.reason === 'gone') return undefined
  return new GrpcError('UNAVAILABLE', (error as Error).message)
}
