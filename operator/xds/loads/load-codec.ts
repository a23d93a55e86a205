import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'

export const loadReportPath = '/tollway.operator.v1.StreamReports/Report'

/** The load of one process, or of all processes. */
export interface RouteLoad {
  /** The number of requests whose producer is connected. */
  readonly activeStreams: number
  readonly consumers: number
}

export interface LoadReport {
  /** The uid of the process, as in node.metadata of the feed. */
  readonly uid: string
  /**
   * The loads by the `namespace/name` of the route; an empty name is for requests that no route matches.
   * Empty for a process that has ended.
   */
  readonly routes: ReadonlyMap<string, RouteLoad>
}

/** The codec of the receiver of reports. */
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

/** The codec of the sender of reports. */
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
