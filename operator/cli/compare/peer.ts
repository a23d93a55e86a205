import { connect, type Socket } from 'node:net'
import { UsageError } from '@tollway/chassis/command-line/command.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import type { GrpcClient, UnaryOptions } from '@tollway/grpc/client/client.ts'
import { type ClientTls, connectSecure } from '@tollway/grpc/client/client-tls.ts'
import { openClientTls, type WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'

export interface PeerAddress {
  readonly host: string
  readonly port: number
}

/** The files for TLS to a peer. An empty text stands for a file or name that is not given. */
export interface PeerTls {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
  readonly serverName: string
}

/** One of the two compared services, as plain data that can be sent to another process. */
export interface Peer extends PeerAddress {
  readonly name: 'reference' | 'candidate'
  /** Undefined for connections without TLS. */
  readonly tls: PeerTls | undefined
}

/** Returns `host:port`, with an IPv6 address in brackets. */
export const formatAddress = ({ host, port }: PeerAddress) =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`

/** @throws UsageError that names the option */
export function parsePeerAddress(option: string, text: string | undefined): PeerAddress {
  if (text === undefined) throw new UsageError(`missing option ${option} HOST:PORT`)
  const [, host = '', digits = ''] = /^(\[[0-9a-fA-F:.]+\]|[^\s:[\]/]+):(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  if (host === '' || port > 65_535) throw new UsageError(`${option} ${text}: must be HOST:PORT`)
  return { host: host.replace(/^\[|\]$/g, ''), port }
}

/** @throws Error that names the options of invalid files */
export function openPeerTls(
  { name, host, tls }: Peer,
  onWarning: (text: string) => void,
): WatchedClientTls | undefined {
  if (tls === undefined) return undefined
  return openClientTls({
    cert: { setting: `--${name}-cert`, path: tls.certFile },
    key: { setting: `--${name}-key`, path: tls.keyFile },
    ca: { setting: `--${name}-ca`, path: tls.caFile },
    serverName: tls.serverName || host,
    onReloadFailed: reason => onWarning(`${name}: changed certificate files are not used: ${reason}`),
  })
}

export function connectToPeer({ host, port }: Peer, tls: ClientTls | undefined): Socket {
  const address = { host, port, noDelay: true, allowHalfOpen: true, keepAlive: true }
  return tls === undefined ? connect(address) : connectSecure(address, tls)
}

/** The preface of HTTP/2, and SETTINGS without an entry (RFC 9113, 3.4). */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1')
const frameHeaderBytes = 9
const settingsFrame = 4

/**
 * Resolves when the peer answers in HTTP/2.
 *
 * @throws Error that names the option, the address and the cause
 */
export async function assertAnswers(
  peer: Peer,
  tls: ClientTls | undefined,
  timeoutMs: number,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const socket = connectToPeer(peer, tls)
  const timeout = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  let isConnected = false
  let found = Buffer.alloc(0)
  socket.once(tls === undefined ? 'connect' : 'secureConnect', () => {
    isConnected = true
    socket.write(preface)
  })
  socket.on('data', (bytes: Buffer) => {
    found = Buffer.concat([found, bytes])
    if (found.length >= frameHeaderBytes) {
      if (found[3] === settingsFrame) resolve()
      else reject(new Error(`the answer is not HTTP/2: ${readFirstLine(found)}`))
    }
  })
  socket.on('error', reject)
  socket.once('close', () => reject(new Error('the connection was closed before an answer in HTTP/2')))
  try {
    await promise
  } catch (error) {
    const problem = isConnected ? 'is not a gRPC port: ' : ''
    const mayNeedTls = isConnected && tls === undefined && found.length < frameHeaderBytes
    const advice = mayNeedTls ? `; if the port has TLS, use --${peer.name}-tls` : ''
    throw new Error(
      `--${peer.name} ${formatAddress(peer)}: ${problem}${describeConnectionError(error)}${advice}`,
    )
  } finally {
    clearTimeout(timeout)
    socket.destroy()
  }
}

function readFirstLine(bytes: Buffer): string {
  const [line = ''] = bytes.toString('latin1', 0, 40).split(/\r?\n/)
  return escapeControls(line)
}

export const decisionPath = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

/** Received bytes are copied, because their buffer is reused. */
const bytesCodec: Codec<Uint8Array, Uint8Array> = {
  decode: bytes => Buffer.from(bytes),
  encode: bytes => bytes,
}

export type CallOutcome = ({ readonly answer: Uint8Array } | { readonly error: GrpcError }) & {
  readonly tookMs: number
}

/** Resolves with gRPC errors as outcomes; rejects with any other error. */
export async function callPeer(
  client: GrpcClient,
  request: Uint8Array,
  options: UnaryOptions,
): Promise<CallOutcome> {
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

/** Whether the server decided the call. An error of the transport is no decision. */
export function isDecided(outcome: CallOutcome): boolean {
  return 'answer' in outcome || !transportCodes.has(outcome.error.code)
}
