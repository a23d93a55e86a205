import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { BackgroundReceiver, type ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'
import { createFeedCall, type FeedCallParts, type FeedCallTiming } from '@tollway/xds-client/feed-call.ts'

export interface LocalRouteLoad {
  /** `namespace/name`; empty for requests without a matching route. */
  readonly route: string
  /** Requests whose producer is connected to this process. */
  readonly activeStreams: number
  /** Pulls that serve a request. */
  readonly consumers: number
}

interface LoadReporterOptions extends FeedCallParts {
  /** The operator knows this broker by this `uid`. */
  readonly uid: string
  /** Returns the load of each route that has any. Called once in each interval. */
  readonly loads: () => readonly LocalRouteLoad[]
  readonly timing?: Partial<LoadReportTiming>
}

interface LoadReportTiming extends FeedCallTiming {
  /** The time between two reports. */
  readonly intervalMs: number
}

const defaultLoadReportTiming: LoadReportTiming = {
  intervalMs: 1_000,
  backoff: { initialMs: 1_000, maxMs: 30_000 },
  unsupportedMs: 60_000,
}

const reportPath = '/tollway.operator.v1.StreamReports/Report'

const reportCodec = {
  encode: (report: Uint8Array) => report,
  decode: (bytes: Uint8Array) => fromBinary(StreamReportEndSchema, bytes),
}

/**
 * Reports the load of this broker for the statuses of routes. Each report is complete; the first is sent when
 * a call begins, others after a change. While the operator does not read, no reports are queued: the next one
 * has the state at that time.
 */
export function createLoadReporter(options: LoadReporterOptions): ReconnectingCall {
  const { connection, uid, loads } = options
  const timing = { ...defaultLoadReportTiming, ...options.timing }

  async function callOnce(signal: AbortSignal): Promise<void> {
    const call = connection.client().bidi(reportPath, reportCodec, { signal })
    const pause = new WakeablePause()
    const receiver = new BackgroundReceiver(call.messages, () => {}, pause.wake)
    let sent: Uint8Array | undefined
    while (!receiver.hasEnded && !signal.aborted) {
      const report = encodeReport(uid, loads())
      if (sent === undefined || Buffer.compare(report, sent) !== 0) {
        sent = report
        await call.write(report)
      }
      await pause.wait(timing.intervalMs, signal)
    }
    await receiver.ended
  }

  return createFeedCall({ ...options, what: 'report the load of streams', timing, callOnce })
}

/** Encodes a report. Equal loads have equal bytes, in whatever order the routes are. */
function encodeReport(uid: string, loads: readonly LocalRouteLoad[]): Uint8Array {
  const routes = [...loads].sort((a, b) => (a.route < b.route ? -1 : 1))
  return toBinary(StreamReportSchema, create(StreamReportSchema, { uid, routes }))
}
