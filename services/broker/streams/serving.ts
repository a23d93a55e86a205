import type { Span } from '@tollway/chassis/tracing.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { type LoggedRequest, LogRefusal, type RingCursor, type RingReader } from '../log/stream-log.ts'
import type { Route } from '../routes/route.ts'
import type { Status } from '../wire/status.ts'
import { howMany } from './how-many.ts'
import type { Beginning } from './late-join.ts'
import { createReading, type Reading } from './reading.ts'
import { startRequestSpan } from './request-span.ts'
import type { StreamContext } from './stream-context.ts'

/** One request in one pull, from the time that it matches: its turn, its messages, and what is counted. */
export interface Serving {
  readonly request: LoggedRequest
  readonly route: Route
  /** The log lets it be read. */
  readonly ready: boolean
  /** Its turn has come. */
  begin(): void
  /**
   * The next message, as `Reading.next`.
   *
   * @throws GrpcError when the consumer is to be cut off
   */
  next(): Uint8Array | undefined
  /** Everything was given. */
  readonly over: boolean
  tell(status: Status): void
  stop(status: Status): void
  /** @throws GrpcError when the consumer is to be cut off, though it does not ask for the next message */
  sweep(): void
  readonly behind: RingCursor['behind']
  /** Gives it up, with the problem when it was not served whole. */
  leave(problem?: string): void
}

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

/** Begins to read at once, so that nothing is missed while others have their turn. */
export function createServing(context: StreamContext, options: ServingOptions): Serving {
  const { request, route } = options
  const { counters, histograms } = context.stats.route(route.name)
  let reading: Reading | undefined
  let left = false
  let sent = 0
  let span: Span | undefined

  function onGap(messages: number): void {
    counters.messages_dropped += messages
    // What was lost in the queue is not the fault of a slow consumer.
    if (route.slowConsumers === 'cut-off' && sent > 1) throw cutOff(messages)
  }

  function cutOff(messages: number): GrpcError {
    counters.consumers_cut_off += 1
    const kept = `${route.limits.bufferBytes} bytes or ${route.limits.bufferSeconds} s`
    const behind = howMany(messages, 'message', 'messages')
    return new GrpcError('RESOURCE_EXHAUSTED', `too slow: ${behind} behind what is kept, ${kept}`)
  }

  function noteFirst(): void {
    const waitedMs = context.clock.nowMs() - Math.max(options.pulledMs, request.openedMs)
    histograms.time_to_first_message_ms.record(Math.max(0, waitedMs))
  }

  const reader: RingReader = { onNews: options.onNews }
  request.read(reader).then(
    cursor => {
      if (left) return cursor.close()
      reading = createReading(cursor, options.beginning, onGap)
      options.onNews()
    },
    (error: unknown) => {
      if (!left) options.onUnreadable(errorOfLog(error))
    },
  )
  return {
    request,
    route,
    get ready() {
      return reading !== undefined
    },
    begin() {
      counters.requests_served += 1
      span = startRequestSpan(context, 'Pull', request)
    },
    next() {
      const bytes = reading?.next()
      if (bytes === undefined) return undefined
      sent += 1
      if (sent === 2) noteFirst()
      counters.messages_out += 1
      counters.bytes_out += bytes.length
      return bytes
    },
    get over() {
      return reading?.over === true
    },
    tell: status => reading?.tell(status),
    stop: status => reading?.stop(status),
    sweep() {
      const gap = route.slowConsumers === 'cut-off' && sent > 1 ? (reading?.gap ?? 0) : 0
      if (gap > 0) onGap(gap)
    },
    get behind() {
      return reading?.behind ?? nothing
    },
    leave(problem) {
      if (left) return
      left = true
      reading?.close()
      span?.end(problem)
      context.consumersOfRequest.release(request.key)
    },
  }
}

const nothing = { entries: 0, bytes: 0 }

function errorOfLog(error: unknown): GrpcError | undefined {
  if (error instanceof LogRefusal && error.reason === 'gone') return undefined
  return new GrpcError('UNAVAILABLE', (error as Error).message)
}
