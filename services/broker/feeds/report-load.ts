import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { FeedConnection } from '@tollway/discovery/feed-connection.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'

/** What one route carries in this process. */
export interface RouteLoad {
  /** `namespace/name`; empty for what no route matches. */
  readonly route: string
  /** Requests whose producer is connected. */
  readonly activeStreams: number
  /** Open pulls. */
  readonly consumers: number
}

/** Tells the operator what this broker carries, for the statuses of routes. */
export interface LoadReporter {
  start(): void
  /** Ends the report; the operator then knows that nothing is told any more. */
  stop(): Promise<void>
}

export interface LoadReporterOptions {
  /** Shared with the feed, which closes it: to be stopped before that. */
  readonly connection: FeedConnection
  /** Who reports: `uid` of the node's metadata. */
  readonly uid: string
  /** Every route that carries something, each once. Asked once an interval. */
  readonly loads: () => readonly RouteLoad[]
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
  readonly timing?: Partial<LoadReportTiming>
}

export interface LoadReportTiming {
  /** Between two reports, and so between two looks at the loads. */
  readonly intervalMs: number
  /** Waits after a stream ended. They begin anew after one that lasted longer than the longest wait. */
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
 * The whole report is sent first on each stream, and again when it has changed. While the operator does not
 * take one, none is kept: the next one says what is true then.
 */
export function createLoadReporter(options: LoadReporterOptions): LoadReporter {
  const { connection, uid, loads, clock, log, random } = options
  const { intervalMs, backoff: waits } = { ...defaultLoadReportTiming, ...options.timing }
  const backoff = createBackoff({ ...waits, factor: 2, jitter: 0.5, random })
  const stopped = new AbortController()
  const { signal } = stopped
  let running: Promise<void> = Promise.resolve()
  let told = ''

  async function reportOnce(): Promise<void> {
    const call = connection.client().bidi(streamReportPath, reportCodec, { signal })
    const pause = createWakeablePause()
    let hasEnded = false
    const ended = readToEnd(call.messages).finally(() => {
      hasEnded = true
      pause.wake()
    })
    // Awaited below, when there is nothing to be sent any more.
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

  function tell(error: unknown): void {
    const { message: reason } = error as Error
    // Of a connection that is not there the feed tells, which has the same.
    const isNews = error instanceof GrpcError && error.code !== statusCodes.UNAVAILABLE && reason !== told
    log[isNews ? 'warn' : 'debug']('the operator takes no report of streams', { reason })
    if (isNews) told = reason
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      await reportOnce().catch(error => {
        if (!signal.aborted) tell(error)
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

/** Equal loads are equal bytes, in whatever order they come. */
function encodeReport(uid: string, loads: readonly RouteLoad[]): Uint8Array {
  const routes = [...loads].sort((a, b) => (a.route < b.route ? -1 : 1))
  return toBinary(StreamReportSchema, create(StreamReportSchema, { uid, routes }))
}
