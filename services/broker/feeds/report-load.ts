import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { FeedConnection } from '@tollway/discovery/feed-connection.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'

/** The load of one route in this process. */
export interface RouteLoad {
  /** `namespace/name`; empty for requests without a matching route. */
  readonly route: string
  /** Requests whose producer is connected. */
  readonly activeStreams: number
  /** Open pulls. */
  readonly consumers: number
}

/** Reports the load of this broker to the operator, for the statuses of routes. */
export interface LoadReporter {
  start(): void
  /** Ends the report; the operator then knows that no more reports follow. */
  stop(): Promise<void>
}

export interface LoadReporterOptions {
  /** The connection of the feed, which closes it: stop the reporter before that. */
  readonly connection: FeedConnection
  /** The identity of the reporter: `uid` of the node's metadata. */
  readonly uid: string
  /** The load of every route with any, each once. Called once an interval. */
  readonly loads: () => readonly RouteLoad[]
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
  readonly timing?: Partial<LoadReportTiming>
}

export interface LoadReportTiming {
  /** The time between two reports. */
  readonly intervalMs: number
  /**
   * The delays after the end of a stream. They start again after a stream that lasted longer than the longest
   * delay.
   */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
}

export const defaultLoadReportTiming: LoadReportTiming = {
  intervalMs: 1_000,
  backoff: { initialMs: 1_000, maxMs: 30_000 },
}

export const streamReportPath = '/tollway.operator.v1.StreamReports/Report'

const reportCodec = {
  encode: (report: Uint8Array) => report,
  decode: (bytes: Uint8Array) => fromBinary(StreamReportEndSchema, bytes),
}

/**
 * Sends the whole report first on each stream, and again after a change. While the operator does not read, no
 * reports are queued: the next one has the state at that time.
 */
export function createLoadReporter(options: LoadReporterOptions): LoadReporter {
  const { connection, uid, loads, clock, log, random } = options
  const { intervalMs, backoff: waits } = { ...defaultLoadReportTiming, ...options.timing }
  const backoff = createBackoff({ ...waits, factor: 2, jitter: 0.5, random })
  const stopped = new AbortController()
  const { signal } = stopped
  let running: Promise<void> = Promise.resolve()
  let lastReason = ''

  async function reportOnce(): Promise<void> {
    const call = connection.client().bidi(streamReportPath, reportCodec, { signal })
    const pause = createWakeablePause()
    let hasEnded = false
    const ended = readToEnd(call.messages).finally(() => {
      hasEnded = true
      pause.wake()
    })
    // Awaited below, after the last report.
    ended.catch(() => {})
    let sent: Uint8Array | undefined
    while (!hasEnded && !signal.aborted) {
      const report = encodeReport(uid, loads())
      if (sent === undefined || Buffer.compare(report, sent) !== 0) {
        sent = report
        await call.write(report)
      }
      await pause.wait(intervalMs, signal)
    }
    await ended
  }

  function logFailure(error: unknown): void {
    const { message: reason } = error as Error
    // The feed has the same connection and reports its failures.
    const isNew =
      error instanceof GrpcError && error.code !== statusCodes.UNAVAILABLE && reason !== lastReason
    log[isNew ? 'warn' : 'debug']('report streams: the operator accepts no report', { reason })
    if (isNew) lastReason = reason
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      await reportOnce().catch(error => {
        if (!signal.aborted) logFailure(error)
      })
      if (clock.monotonicMs() - beganMs > waits.maxMs) backoff.reset()
      await createWakeablePause().wait(backoff.nextMs(), signal)
    }
  }

  return {
    start() {
      running = run()
    },
    async stop() {
      stopped.abort()
      await running
    },
  }
}

async function readToEnd(messages: AsyncIterable<unknown>): Promise<never> {
  for await (const _ of messages);
  throw new Error('the operator ended the stream')
}

/** Equal loads have equal bytes, in any order. */
function encodeReport(uid: string, loads: readonly RouteLoad[]): Uint8Array {
  const routes = [...loads].sort((a, b) => (a.route < b.route ? -1 : 1))
  return toBinary(StreamReportSchema, create(StreamReportSchema, { uid, routes }))
}
