import { grpcLoad } from './load/grpc-connection.ts'
import { httpLoad } from './load/http-connection.ts'
import type { Load } from './load/load-connection.ts'
import { grpcRequest, jsonRequest, type Question, uniform } from './load/requests.ts'
import type { MeasuredServer } from './servers.ts'

export interface LoadShape {
  readonly protocol: 'grpc' | 'json'
  readonly questions: readonly Question[]
  readonly connections: number
  /** Calls in flight on each connection, at most. */
  readonly streams: number
  /** Whether every answer is to be OVER_LIMIT, and not OK. */
  readonly over: boolean
}

export interface DecisionLoads {
  /** Questions by chance, each as likely, the same in every run. An answer with another code has failed. */
  uniform(server: MeasuredServer): Load
  /** One question after the other, from the first again after the last, quickly; any answer will do. */
  inOrder(server: MeasuredServer): Load
}

export const shouldRateLimit = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const overallCodeField = 8

/** So many calls in flight keep a server busy while it is only to be made ready. */
const busyCalls = 100

/** Makes the requests once. */
export function createDecisionLoads({
  protocol,
  questions,
  connections,
  streams,
  over,
}: LoadShape): DecisionLoads {
  const bodies = questions.map(protocol === 'json' ? jsonRequest : grpcRequest)
  const body = (index: number) => bodies[index % bodies.length] ?? Buffer.alloc(0)
  const code = over ? 2 : 1
  const isExpected = (message: Buffer) => message[0] === overallCodeField && message[1] === code
  const open = (server: MeasuredServer, expects: (message: Buffer) => boolean) =>
    protocol === 'json'
      ? httpLoad({ port: server.httpPort, status: over ? 429 : 200 })
      : grpcLoad({ port: server.port, path: shouldRateLimit, expects })
  return {
    uniform(server) {
      const next = uniform(bodies.length)
      return { open: open(server, isExpected), connections, streams, bodyOf: () => body(next()) }
    },
    inOrder: server => ({
      open: open(server, () => true),
      connections,
      streams: protocol === 'json' ? 1 : Math.max(1, busyCalls / connections),
      bodyOf: body,
    }),
  }
}
