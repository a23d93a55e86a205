import type { X509Certificate } from 'node:crypto'
import type { Log } from '@tollway/chassis/log/log.ts'
import { checkSubjectAltName } from '@tollway/chassis/net/tls.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { encodedCodec, type Reports, type SessionTable } from '../pods/session-table.ts'
import { decodeLoad, encodeLoadEnd, type StreamLoads } from '../pods/stream-loads.ts'
import { answerQuery, type QueriedParts } from './answer-query.ts'
import type { Peers } from './peers.ts'
import { decodeEach } from './report-codec.ts'

type LeaderMethod = 'Acknowledge' | 'ReportLoads' | 'PassRateLimitSession' | 'PassBrokerSession' | 'Query'

export const leaderPath = (method: LeaderMethod) => `/tollway.operator.v1.LeaderService/${method}`

/** The maximum bytes of a message to an operator. The largest message is a what-if. */
export const maxMessageBytes = 16 * 1024 * 1024

/**
 * The maximum number of open calls of each method. Calls that pass sessions are limited by their session
 * table.
 */
const maxCalls: Readonly<Record<LeaderMethod, number>> = {
  Acknowledge: 64,
  ReportLoads: 64,
  PassRateLimitSession: 10_000,
  PassBrokerSession: 10_000,
  Query: 1_000,
}

type SessionServer = Pick<SessionTable<never>, 'serve'>

interface LeaderServiceOptions {
  /**
   * The DNS name that only operators have in their certificates. Certificates of pods, which the same
   * authority issues, lack it.
   */
  readonly operatorName: string
  readonly peers: Pick<Peers, 'receive'>
  readonly loads: Pick<StreamLoads, 'receive'>
  readonly rateLimitSessions: SessionServer
  readonly brokerSessions: SessionServer
  readonly queried: QueriedParts
  readonly log: Log
}

/**
 * Returns the methods of LeaderService, for the server of the feed, which has to require client certificates.
 * Every operator serves them, with or without the Lease. A caller is authorised before any message is read.
 */
export function leaderMethods(options: LeaderServiceOptions): readonly AnyMethod[] {
  const { operatorName, peers, loads, rateLimitSessions, brokerSessions, queried, log } = options

  function method(
    name: LeaderMethod,
    serve: (requests: Reports, call: Call) => AsyncIterable<Uint8Array>,
  ): AnyMethod {
    let open = 0
    async function* handle(requests: Reports, call: Call): AsyncGenerator<Uint8Array> {
      const reason = rejectionReason(call.peerCertificate, operatorName)
      if (reason !== undefined) {
        log.warn('reject call', { method: name, peer: call.peer, reason })
        throw new GrpcError('PERMISSION_DENIED', `only an operator may call ${name}: ${reason}`)
      }
      if (open >= maxCalls[name]) throw new GrpcError('RESOURCE_EXHAUSTED', `${open} calls are open already`)
      open += 1
      try {
        yield* serve(requests, call)
      } finally {
        open -= 1
      }
    }
    return { kind: 'bidi', path: leaderPath(name), ...encodedCodec, handle }
  }

  async function* reportLoads(reports: Reports): AsyncGenerator<Uint8Array> {
    await loads.receive(decodeEach(reports, decodeLoad), 'operator')
    yield encodeLoadEnd()
  }

  return [
    method('Acknowledge', (reports, call) => peers.receive(reports, call)),
    method('ReportLoads', reportLoads),
    method('PassRateLimitSession', (reports, call) => rateLimitSessions.serve(reports, call)),
    method('PassBrokerSession', (reports, call) => brokerSessions.serve(reports, call)),
    method('Query', (requests, call) => answerQuery(requests, queried, call.signal)),
  ]
}

function rejectionReason(certificate: X509Certificate | undefined, operatorName: string): string | undefined {
  if (certificate === undefined) return 'the caller shows no certificate'
  return checkSubjectAltName(certificate, operatorName)?.message
}
