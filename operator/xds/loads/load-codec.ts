import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'

export const loadReportPath = '/tollway.operator.v1.StreamReports/Report'

/** What one process carries, or all of them. */
export interface RouteLoad {
  /** Requests whose producer is connected. */
  readonly activeStreams: number
  readonly consumers: number
}

export interface LoadReport {
  /** Of the process, as in the node's metadata of the feed. */
  readonly uid: string
  /**
   * By the `namespace/name` of the route; empty for what no route matches. Nothing for a process that is
   * gone.
   */
  readonly routes: ReadonlyMap<string, RouteLoad>
}

/** For who receives reports. */
export const loadCodec: Codec<LoadReport, void> = {
  decode(bytes) {
    const { uid, routes } = fromBinary(StreamReportSchema, bytes)
    return {
      uid,
      routes: new Map(
        routes.map(({ route, activeStreams, consumers }) => [route, { activeStreams, consumers }]),
      ),
    }
  },
  encode: () => toBinary(StreamReportEndSchema, create(StreamReportEndSchema)),
}

/** For who sends them. */
export const loadReporterCodec: Codec<void, LoadReport> = {
  encode: ({ uid, routes }) =>
    toBinary(
      StreamReportSchema,
      create(StreamReportSchema, {
        uid,
        routes: Array.from(routes, ([route, load]) => ({ route, ...load })),
      }),
    ),
  decode: () => undefined,
}
