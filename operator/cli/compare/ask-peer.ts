import { connect } from 'node:net'
import type { GrpcClient, UnaryOptions } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { UsageError } from '../command.ts'

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

export interface HostPort {
  readonly host: string
  readonly port: number
}

/** @throws UsageError that names the option */
export function parseHostPort(option: string, text: string | undefined): HostPort {
  if (text === undefined) throw new UsageError(`${option}: must be HOST:PORT, found an empty value`)
  const [, host = '', digits = ''] = /^(\[[0-9a-fA-F:.]+\]|[^\s:[\]/]+):(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  if (host === '' || port > 65_535) throw new UsageError(`${option} ${text}: must be HOST:PORT`)
  return { host: host.replace(/^\[|\]$/g, ''), port }
}

/** Resolves when the address accepts a connection. Rejects with the option, the address and the cause. */
export async function assertReachable(
  option: string,
  { host, port }: HostPort,
  timeoutMs: number,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const socket = connect({ host, port, timeout: timeoutMs })
  socket.once('connect', resolve)
  socket.once('timeout', () => reject(new Error(`no connection within ${timeoutMs} ms`)))
  socket.once('error', reject)
  try {
    await promise
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Error(`${option} ${host}:${port}: does not accept connections: ${code ?? message}`)
  } finally {
    socket.destroy()
  }
}
