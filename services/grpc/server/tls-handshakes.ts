import { AsyncLocalStorage } from 'node:async_hooks'
import type { Socket } from 'node:net'
import { createServer, type SecureContextOptions, type TLSSocket } from 'node:tls'
import type { GrpcLimits, ServerTls } from '../server.ts'
import { peerName } from './peer-name.ts'

/** The unfinished TLS handshakes of accepted connections. */
interface Handshakes {
  begin(socket: Socket): void
  /**
   * Destroys the connections of unfinished handshakes, and stops listening for changes of the credentials.
   */
  close(): void
}

type HandshakeLimits = Pick<GrpcLimits, 'handshakeTimeoutMs' | 'maxHandshakes' | 'maxHandshakesOfPeer'>

const protocol = 'h2'

/**
 * Creates the server side of TLS for accepted connections. `onSecure` receives each connection whose caller
 * is verified and offers HTTP/2 by ALPN, as RFC 9113 (3.2) requires.
 *
 * @throws Error for invalid credentials, and if client certificates are required but `ca` is missing
 */
export function createHandshakes(
  tls: ServerTls,
  { handshakeTimeoutMs, maxHandshakes, maxHandshakesOfPeer }: HandshakeLimits,
  onSecure: (socket: Socket) => void,
): Handshakes {
  /** The connections with an unfinished handshake, and the addresses of their peers. */
  const unfinished = new Map<Socket, string>()
  const unfinishedOfPeer = new Map<string, number>()
  // Node reports a finished handshake without the plain connection under it; this store keeps that
  // connection.
  const connection = new AsyncLocalStorage<Socket>()
  const server = createServer({
    ...contextOptions(tls),
    requestCert: tls.requireClientCert,
    rejectUnauthorized: true,
    ALPNProtocols: [protocol],
    handshakeTimeout: handshakeTimeoutMs,
  })

  function reject(error: Error, peer: string, socket: Socket): void {
    socket.on('error', () => {}).destroy()
    tls.onRejected?.(error, peer)
  }

  function add(socket: Socket, peer: string): void {
    unfinished.set(socket, peer)
    unfinishedOfPeer.set(peer, (unfinishedOfPeer.get(peer) ?? 0) + 1)
  }

  /** Called when the handshake has finished, or its connection was closed. */
  function remove(socket: Socket): void {
    const peer = unfinished.get(socket)
    if (peer === undefined) return
    unfinished.delete(socket)
    const left = (unfinishedOfPeer.get(peer) ?? 1) - 1
    if (left > 0) unfinishedOfPeer.set(peer, left)
    else unfinishedOfPeer.delete(peer)
  }

  server.on('secureConnection', socket => {
    const plain = connection.getStore()
    if (plain) remove(plain)
    const error = findPeerProblem(tls, socket)
    if (error) reject(error, peerName(socket), socket)
    else onSecure(socket)
  })
  server.on('tlsClientError', (error, socket) => {
    reject(error, peerName(connection.getStore() ?? socket), socket)
  })
  const stopListening = tls.onChange(() => server.setSecureContext(contextOptions(tls)))

  return {
    begin(socket) {
      const peer = socket.remoteAddress ?? ''
      const tooMany =
        unfinished.size >= maxHandshakes
          ? `more than ${maxHandshakes} unfinished handshakes`
          : (unfinishedOfPeer.get(peer) ?? 0) >= maxHandshakesOfPeer &&
            `more than ${maxHandshakesOfPeer} unfinished handshakes of one address`
      if (tooMany) return reject(new Error(tooMany), peerName(socket), socket)
      add(socket, peer)
      socket.once('close', () => remove(socket))
      connection.run(socket, () => server.emit('connection', socket))
    },
    close() {
      stopListening()
      for (const socket of unfinished.keys()) socket.destroy()
    },
  }
}

/**
 * Returns the credentials as options of a TLS server.
 *
 * @throws Error if client certificates are required but `ca` is missing
 */
export function contextOptions(tls: ServerTls): SecureContextOptions {
  const { cert, key, ca } = tls.credentials()
  if (tls.requireClientCert && !ca) {
    throw new Error('tls: a ca is needed to require client certificates')
  }
  return { cert, key, ...(ca && { ca }), minVersion: 'TLSv1.2' }
}

function findPeerProblem(tls: ServerTls, socket: TLSSocket): Error | undefined {
  if (socket.alpnProtocol !== protocol) return new Error(`the caller does not offer ${protocol} by ALPN`)
  return findClientProblem(tls, socket)
}

/** Returns why a connection is rejected because of its client certificate; undefined if it is accepted. */
export function findClientProblem(tls: ServerTls, socket: TLSSocket): Error | undefined {
  if (!tls.requireClientCert) return undefined
  const certificate = socket.getPeerX509Certificate()
  return certificate ? tls.verifyClient?.(certificate) : new Error('the caller sent no certificate')
}
