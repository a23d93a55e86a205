import { AsyncLocalStorage } from 'node:async_hooks'
import type { Socket } from 'node:net'
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls'
import type { GrpcLimits, ServerTls } from '../server.ts'
import { peerName } from './peer-name.ts'

type HandshakeLimits = Pick<GrpcLimits, 'handshakeTimeoutMs' | 'maxHandshakes' | 'maxHandshakesOfPeer'>

const protocol = 'h2'

/** The server side of TLS for accepted connections, which bounds the number of unfinished handshakes. */
export class Handshakes {
  readonly #tls: ServerTls
  readonly #limits: HandshakeLimits
  readonly #onSecure: (socket: Socket) => void
  readonly #server: Server
  readonly #stopListening: () => void
  /** The connections with an unfinished handshake, and the addresses of their peers. */
  readonly #unfinished = new Map<Socket, string>()
  readonly #unfinishedOfPeer = new Map<string, number>()
  /** The plain connection of the current handshake, which Node's events do not contain. */
  readonly #plain = new AsyncLocalStorage<Socket>()

  /**
   * @param onSecure receives each connection whose caller is verified and offers HTTP/2 by ALPN (RFC 9113, 3.2)
   * @throws Error for invalid credentials, and if client certificates are required but `ca` is missing
   */
  constructor(tls: ServerTls, limits: HandshakeLimits, onSecure: (socket: Socket) => void) {
    this.#tls = tls
    this.#limits = limits
    this.#onSecure = onSecure
    this.#server = createServer({
      ...contextOptions(tls),
      requestCert: tls.requireClientCert,
      rejectUnauthorized: true,
      ALPNProtocols: [protocol],
      handshakeTimeout: limits.handshakeTimeoutMs,
    })
    this.#server.on('secureConnection', socket => this.#finish(socket))
    this.#server.on('tlsClientError', (error, socket) => {
      this.#reject(error, peerName(this.#plain.getStore() ?? socket), socket)
    })
    this.#stopListening = tls.onChange(() => this.#server.setSecureContext(contextOptions(tls)))
  }

  /** Begins the handshake of an accepted connection. May be passed as a callback. */
  readonly begin = (socket: Socket): void => {
    const peer = socket.remoteAddress ?? ''
    const problem = this.#findExcess(peer)
    if (problem !== undefined) {
      this.#reject(new Error(problem), peerName(socket), socket)
      return
    }
    this.#unfinished.set(socket, peer)
    this.#unfinishedOfPeer.set(peer, this.#countOf(peer) + 1)
    socket.once('close', () => this.#remove(socket))
    this.#plain.run(socket, () => this.#server.emit('connection', socket))
  }

  /** Destroys the connections with an unfinished handshake, and ignores changes of the credentials. */
  close(): void {
    this.#stopListening()
    for (const socket of this.#unfinished.keys()) socket.destroy()
  }

  #countOf(peer: string): number {
    return this.#unfinishedOfPeer.get(peer) ?? 0
  }

  #findExcess(peer: string): string | undefined {
    const { maxHandshakes, maxHandshakesOfPeer } = this.#limits
    if (this.#unfinished.size >= maxHandshakes) return `more than ${maxHandshakes} unfinished handshakes`
    if (this.#countOf(peer) < maxHandshakesOfPeer) return undefined
    return `more than ${maxHandshakesOfPeer} unfinished handshakes of one address`
  }

  #finish(socket: TLSSocket): void {
    const plain = this.#plain.getStore()
    if (plain) this.#remove(plain)
    const problem = findPeerProblem(this.#tls, socket)
    if (problem) this.#reject(problem, peerName(socket), socket)
    else this.#onSecure(socket)
  }

  #reject(error: Error, peer: string, socket: Socket): void {
    socket.on('error', () => {}).destroy()
    this.#tls.onRejected?.(error, peer)
  }

  #remove(socket: Socket): void {
    const peer = this.#unfinished.get(socket)
    if (peer === undefined) return
    this.#unfinished.delete(socket)
    const left = this.#countOf(peer) - 1
    if (left > 0) this.#unfinishedOfPeer.set(peer, left)
    else this.#unfinishedOfPeer.delete(peer)
  }
}

/** @throws Error if client certificates are required but `ca` is missing */
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

/** Returns undefined if the client certificate is accepted. */
export function findClientProblem(tls: ServerTls, socket: TLSSocket): Error | undefined {
  if (!tls.requireClientCert) return undefined
  const certificate = socket.getPeerX509Certificate()
  return certificate ? tls.verifyClient?.(certificate) : new Error('the caller sent no certificate')
}
