import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectSecure } from 'node:tls'
import type { Log } from '@tollway/chassis/log/log.ts'
import { TlsFiles } from '@tollway/chassis/net/tls.ts'

export type ServerEndpoint = { readonly host: string; readonly port: number } | { readonly path: string }

/** Returns `host:port`, or the path of a unix socket. */
export function formatEndpoint(endpoint: ServerEndpoint): string {
  return 'path' in endpoint ? endpoint.path : `${endpoint.host}:${endpoint.port}`
}

/** The certificates and keys of TLS, all as PEM. */
export interface TlsOptions {
  /** The certificate authorities that may have issued the server's certificate. */
  readonly ca?: string | Buffer
  /** The certificate that the client presents, and its key. */
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  /** The name that the server's certificate must have. Defaults to the host. */
  readonly servername?: string
  /** False accepts any name. One of the authorities must still have issued the certificate. */
  readonly verifyName?: boolean
}

export interface SocketOptions {
  readonly endpoint: ServerEndpoint
  /** Enables TLS. A function is called for each connection, so that renewed certificates are used. */
  readonly tls?: TlsOptions | (() => TlsOptions) | undefined
}

interface SocketEvents {
  /** Called when the connection is established, with TLS after the handshake. */
  onConnect(): void
  /** Reads the first `bytes` bytes of the chunk, which the next read reuses. Returns whether to read on. */
  onData(bytes: number, chunk: Buffer): boolean
  /**
   * Called with the error's text when the connection failed, and without a text when it ended. Called at
   * least once, also after `destroy`, and possibly several times.
   */
  onLost(text: string | undefined): void
}

/** The kernel probes an idle connection after this time, to detect a dead one before a call uses it. */
const keepAliveDelayMs = 15_000

/**
 * Starts to connect to a backend. `closed` resolves when the socket is closed, and never rejects.
 *
 * @param receiveBytes the size of the receive buffer, which all reads reuse
 */
export function connectSocket(
  { endpoint, tls: tlsNow }: SocketOptions,
  receiveBytes: number,
  { onConnect, onData, onLost }: SocketEvents,
): { readonly socket: Socket; readonly closed: Promise<void> } {
  const chunk = Buffer.allocUnsafeSlow(receiveBytes)
  const tls = typeof tlsNow === 'function' ? tlsNow() : tlsNow
  const settings = {
    ...endpoint,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveDelayMs,
    onread: { buffer: chunk, callback: (bytes: number) => onData(bytes, chunk) },
  }
  const socket =
    tls === undefined
      ? connectPlain(settings)
      : connectSecure({ ...settings, ...secureSettings(tls, endpoint) })
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  socket.once(tls === undefined ? 'connect' : 'secureConnect', onConnect)
  socket.once('end', () => onLost(undefined))
  socket.once('close', () => onLost(undefined))
  // The listener stays after the end: an error without a listener would end the process.
  socket.on('error', error => onLost(describeNetworkError(error)))
  return { socket, closed }
}

function secureSettings(tls: TlsOptions, endpoint: ServerEndpoint): ConnectionOptions {
  const { ca, cert, key, verifyName = true } = tls
  const host = 'host' in endpoint ? endpoint.host : ''
  // The server name extension does not allow IP addresses. Without it, Node still checks the address against
  // the certificate.
  const servername = tls.servername ?? (isIP(host) ? '' : host)
  return {
    minVersion: 'TLSv1.2',
    ...(servername === '' ? {} : { servername }),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(verifyName ? {} : { checkServerIdentity: () => undefined }),
  }
}

function describeNetworkError(error: Error): string | undefined {
  // A host name with several addresses yields an AggregateError without a text; the first of its errors, one
  // for each address, has one.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  return first instanceof Error && first.message !== '' ? first.message : undefined
}

interface TlsFileSettings {
  /** The beginning of the settings' names, such as `KVSTORE_TLS_`. */
  readonly prefix: string
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  readonly skipHostnameVerification: boolean
}

/**
 * Opens the TLS files of a backend. The files are read again when they change, until the process ends; each
 * new connection uses the current ones.
 *
 * @throws Error that names the setting when a file cannot be used.
 */
export function followTlsFiles(settings: TlsFileSettings, log: Log): () => TlsOptions {
  const { prefix, certFile, keyFile, caFile, skipHostnameVerification } = settings
  const files = new TlsFiles({
    cert: { setting: `${prefix}CLIENT_CERT`, path: certFile },
    key: { setting: `${prefix}CLIENT_KEY`, path: keyFile },
    ca: { setting: `${prefix}CACERT`, path: caFile },
    onReloadFailed: reason => log.warn('reload certificates failed', { reason }),
  })
  return () => {
    const { identity, ca } = files.credentials()
    return { verifyName: !skipHostnameVerification, ...identity, ...(ca === undefined ? {} : { ca }) }
  }
}
