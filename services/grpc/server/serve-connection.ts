import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { type CallContext, CallRegister, type CallTotals } from '../calls/call-context.ts'
import { routeCall } from '../calls/route-call.ts'
import { ServerConnection } from '../http2/connection.ts'
import type { AnyMethod, GrpcLimits, GrpcServerOptions } from '../server.ts'
import { GrpcError } from '../status.ts'
import { startAging } from './connection-age.ts'

/** What all connections of a server share. */
export interface ConnectionContext {
  readonly methods: ReadonlyMap<string, AnyMethod>
  readonly limits: GrpcLimits
  readonly onDefect: GrpcServerOptions['onDefect']
  readonly totals: CallTotals
  readonly memory: MemoryBudget
  readonly clock: Clock
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  /** See `ConnectionOptions.keepaliveMs`. */
  readonly keepaliveMs: number
}

export interface ServedConnection {
  readonly connection: ServerConnection
  readonly calls: CallRegister
}

/** The limit of headers that are not metadata: path, authority, content-type and so on. */
const transportFieldsBytes = 8 * 1024

/** @param peer the value of `Call.peer` */
export function serveConnection(
  socket: Duplex,
  peer: string,
  { methods, limits, onDefect, totals, memory, clock, random, keepaliveMs }: ConnectionContext,
  onClosed: () => void,
): ServedConnection {
  const calls = new CallRegister(totals)
  const peerCertificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
  const context: CallContext = { limits, onDefect, calls, memory, peer, peerCertificate }
  const connection = new ServerConnection(socket, {
    maxConcurrentStreams: limits.maxConcurrentStreams,
    maxHeaderListBytes: limits.maxMetadataBytes + transportFieldsBytes,
    keepaliveMs,
    memory,
    clock,
    route: request => routeCall(methods, context, request),
    onDefect: error => onDefect('', error),
    onClosed() {
      stopAging()
      onClosed()
    },
  })
  const stopAging = startAging(limits, random, {
    drain: () => connection.drain(),
    cut() {
      calls.cutAll(new GrpcError('UNAVAILABLE', 'the connection has reached its age'))
      connection.end()
    },
  })
  return { connection, calls }
}
