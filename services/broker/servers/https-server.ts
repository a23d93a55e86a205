import type { RequestListener, ServerOptions } from 'node:http'
import type { Server } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { guarded } from '@tollway/chassis/net/guarded-server.ts'
import { contextOptions, refusalOfClient } from '@tollway/grpc/server/tls-handshakes.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'

const handshakeTimeoutMs = 10_000

/**
 * An HTTPS server with the certificates of a gRPC server, which follow its files, and with the same checks of
 * client certificates.
 */
export function createHttpsServer(tls: ServerTls, options: ServerOptions, listener: RequestListener): Server {
  const { createServer } = process.getBuiltinModule('node:https')
  const server: Server = createServer(
    {
      ...options,
      ...contextOptions(tls),
      requestCert: tls.requireClientCert,
      rejectUnauthorized: true,
      handshakeTimeout: handshakeTimeoutMs,
    },
    guarded(listener),
  )
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    const error = refusalOfClient(tls, socket)
    if (error === undefined) return
    tls.onRefused?.(error, socket.remoteAddress ?? '')
    socket.destroy()
  })
  server.once(
    'close',
    tls.onChange(() => server.setSecureContext(contextOptions(tls))),
  )
  return server
}
