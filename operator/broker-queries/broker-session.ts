import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type BrokerHello,
  type BrokerReport,
  BrokerReportSchema,
  BrokerRequestSchema,
} from '@tollway/proto/tollway/operator/v1/stream_reports'
import { type AskedProcess, Followers } from '../pods/ask-processes.ts'
import type { OpenSession, ReceivingSession, SessionKind } from '../pods/session-table.ts'

/** A report of a broker. `case` is undefined for a kind of report that this version does not know. */
export type BrokerSessionReport = BrokerReport['report']
export type BrokerSessionRequest = NonNullable<MessageInitShape<typeof BrokerRequestSchema>['request']>

/** One broker, for as long as its stream is open. */
export interface BrokerSession extends AskedProcess<BrokerSessionReport, BrokerSessionRequest>, OpenSession {
  /** The name of the pod or process; the uid if it has none. */
  readonly name: string
}

type OpenBrokerSession = BrokerSession & ReceivingSession<BrokerSessionReport>

/** How the sessions of brokers are opened, and how their messages are encoded. */
export const brokerSessions: SessionKind<
  BrokerHello,
  BrokerSessionReport,
  BrokerSessionRequest,
  OpenBrokerSession
> = {
  path: '/tollway.operator.v1.StreamReports/Session',
  name: 'broker',
  decode(bytes) {
    try {
      return fromBinary(BrokerReportSchema, bytes).report
    } catch (error) {
      throw new GrpcError('INVALID_ARGUMENT', `decode a report: ${(error as Error).message}`)
    }
  },
  encode: request => toBinary(BrokerRequestSchema, create(BrokerRequestSchema, { request })),
  readHello(first) {
    if (first.case === 'hello') return first.value
    throw new GrpcError('INVALID_ARGUMENT', 'the first message must be a Hello')
  },
  open: openBrokerSession,
}

function openBrokerSession(
  { uid, pod }: BrokerHello,
  send: (request: BrokerSessionRequest) => void,
): OpenBrokerSession {
  /** The number of requests without an answer. An answer may come after its deadline. */
  let unanswered = 0
  const followers = new Followers<BrokerSessionReport, BrokerSessionRequest>(request => {
    unanswered += 1
    send(request)
  })
  return {
    id: uid,
    uid,
    name: pod || uid,
    follow: (id, request, onReport) => followers.follow(id, request, onReport),
    receive(report) {
      if (report.case !== 'answer') return
      unanswered -= 1
      if (unanswered < 0) throw new GrpcError('INVALID_ARGUMENT', 'answer: no request waits for one')
      followers.pass(report.value.id, report)
    },
    close: () => followers.close(),
  }
}
