import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type BrokerHello,
  type BrokerReport,
  BrokerReportSchema,
  BrokerRequestSchema,
} from '@tollway/proto/tollway/operator/v1/stream_reports'
import { type AskedProcess, Followers } from '../xds/sessions/followers.ts'
import type { OpenSession } from '../xds/sessions/session-registry.ts'
import { checkNames, type ReceivingSession, type SessionKind } from '../xds/sessions/session-table.ts'

export const brokerSessionPath = '/tollway.operator.v1.StreamReports/Session'

/** A report of a broker; its `case` is undefined if this version does not know it. */
export type Report = BrokerReport['report']
export type Request = NonNullable<MessageInitShape<typeof BrokerRequestSchema>['request']>

/** One broker, for as long as its stream is open. */
export interface BrokerSession extends AskedProcess<Report, Request>, OpenSession {
  /** The name of the pod or process; the uid if it has none. */
  readonly name: string
}

type OpenBrokerSession = BrokerSession & ReceivingSession<Report>

/** The sessions of brokers. */
export const brokerSessions: SessionKind<Report, Request, OpenBrokerSession> = {
  path: brokerSessionPath,
  name: 'broker',
  decode(bytes) {
    try {
      return fromBinary(BrokerReportSchema, bytes).report
    } catch (error) {
      throw new GrpcError('INVALID_ARGUMENT', `decode a report: ${(error as Error).message}`)
    }
  },
  encode: request => toBinary(BrokerRequestSchema, create(BrokerRequestSchema, { request })),
  open(first, send) {
    if (first.case !== 'hello') throw new GrpcError('INVALID_ARGUMENT', 'the first message must be a Hello')
    checkNames(first.value)
    return openBrokerSession(first.value, send)
  },
}

function openBrokerSession({ uid, pod }: BrokerHello, send: (request: Request) => void): OpenBrokerSession {
  const followers = new Followers<Report, Request>(send)
  return {
    id: uid,
    uid,
    name: pod || uid,
    follow: (id, request, onReport) => followers.follow(id, request, onReport),
    receive(report) {
      if (report.case === 'answer') followers.pass(report.value.id, report)
    },
    close: () => followers.close(),
  }
}
