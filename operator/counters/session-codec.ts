import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type SessionReport,
  SessionReportSchema,
  SessionRequestSchema,
} from '@tollway/proto/tollway/operator/v1/counters'

export const sessionPath = '/tollway.operator.v1.CounterService/Session'

/** A report of a process; its `case` is undefined if this version does not know it. */
export type Report = SessionReport['report']
export type Request = NonNullable<MessageInitShape<typeof SessionRequestSchema>['request']>

/** @throws GrpcError INVALID_ARGUMENT */
export function decodeReport(bytes: Uint8Array): Report {
  try {
    return fromBinary(SessionReportSchema, bytes).report
  } catch (error) {
    throw new GrpcError('INVALID_ARGUMENT', `decode a report: ${(error as Error).message}`)
  }
}

export function encodeRequest(request: Request): Uint8Array {
  return toBinary(SessionRequestSchema, create(SessionRequestSchema, { request }))
}
