import type { GrpcClient, UnaryOptions } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'

export const decisionPath = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

/** Passes messages on as they are. Received bytes are copied, since their buffer may be used again. */
export const bytesCodec: Codec<Uint8Array, Uint8Array> = {
  decode: bytes => Buffer.from(bytes),
  encode: bytes => bytes,
}

/** The result of one call: the answer's bytes, or the status of its error. */
export type Outcome = ({ readonly answer: Uint8Array } | { readonly error: GrpcError }) & {
  readonly tookMs: number
}

/** Asks for one decision. Resolves with an error of gRPC; rejects with any other error. */
export async function askPeer(
  client: GrpcClient,
  request: Uint8Array,
  options: UnaryOptions,
): Promise<Outcome> {
  const startedMs = performance.now()
  try {
    const answer = await client.unary(decisionPath, bytesCodec, request, options)
    return { answer, tookMs: performance.now() - startedMs }
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error
    return { error, tookMs: performance.now() - startedMs }
  }
}

const transportCodes: ReadonlySet<number> = new Set([
  statusCodes.UNAVAILABLE,
  statusCodes.DEADLINE_EXCEEDED,
  statusCodes.CANCELLED,
])

/** Whether the server decided the call: with an answer, or with an error that is not of the transport. */
export function isDecided(outcome: Outcome): boolean {
  return 'answer' in outcome || !transportCodes.has(outcome.error.code)
}
