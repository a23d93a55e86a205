import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type SessionReport,
  SessionReportSchema,
  SessionRequestSchema,
} from '@tollway/proto/tollway/operator/v1/counters'

export const sessionPath = '/tollway.operator.v1.CounterService/Session'

/** A report of a process; its `case` is undefined if this version does not know it. */
export type Report = SessionReport['report']
export type Request = NonNullable<MessageInitShape<typeof SessionRequestSchema>['request']>

/** For the operator to which the process is connected. */
export const sessionCodec: Codec<Report, Request> = {
  decode: bytes => fromBinary(SessionReportSchema, bytes).report,
  encode: request => toBinary(SessionRequestSchema, create(SessionRequestSchema, { request })),
}
