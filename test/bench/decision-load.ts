import { grpcLoad } from './load/grpc-connection.ts'
import { httpLoad } from './load/http-connection.ts'
import type { Load } from './load/load-connection.ts'
import { grpcRequest, jsonRequest, type Question, uniform } from './load/requests.ts'
import type { MeasuredServer } from './servers.ts'

export interface LoadShape {
  readonly protocol: 'grpc' | 'json'
  readonly questions: readonly Question[]
  readonly connections: number
  /** The most calls in flight on each connection. */
  readonly streams: number
  /** Whether the expected answer is OVER_LIMIT instead of OK. */
  readonly over: boolean
}

export interface DecisionLoads {
  /** Uniformly random questions, the same in every run. An answer with another code is a failed call. */
  uniform(server: MeasuredServer): Load
  /** All questions in order, repeatedly, at full rate; any answer is accepted. */
  inOrder(server: MeasuredServer): Load
}

export const shouldRateLimit = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const overallCodeField = 8

/** The calls in flight that keep a server busy during preparation. */
const busyCalls = 100

/** Encodes the requests once. */
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
