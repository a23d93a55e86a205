import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectSecure } from 'node:tls'

export type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string }

/** `host:port`, or the path of a unix socket. */
export function endpointText(endpoint: Endpoint): string {
  return 'path' in endpoint ? endpoint.path : `${endpoint.host}:${endpoint.port}`
}

/** The certificates and the key are PEM. */
export interface TlsOptions {
  /** The certificate authorities that may have issued the server's certificate. */
  readonly ca?: string | Buffer
  /** The client's certificate and its key. */
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  /** The name that the server's certificate must have. Defaults to the host. */
  readonly servername?: string
  /** False accepts any name; the certificate must still be issued by one of the authorities. */
  readonly verifyName?: boolean
}

export interface SocketOptions {
  readonly endpoint: Endpoint
  readonly tls: TlsOptions | undefined
  /** The size of the receive buffer. All reads reuse one buffer. */
  readonly receiveBytes: number
}

/** The kernel detects a dead idle connection with keepalive probes, before the next call runs into it. */
const keepAliveDelayMs = 15_000

/**
 * Starts to connect to a backend. The socket emits `connect`, or `secureConnect` with TLS.
 *
 * @param onData reads the first `bytes` bytes of the chunk, whose memory the next read reuses; false stops
 *   reading
 */
export function connectSocket(
  { endpoint, tls, receiveBytes }: SocketOptions,
  onData: (bytes: number, chunk: Buffer) => boolean,
): Socket {
  const chunk = Buffer.allocUnsafeSlow(receiveBytes)
  const settings = {
    ...endpoint,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveDelayMs,
    onread: { buffer: chunk, callback: (bytes: number) => onData(bytes, chunk) },
  }
  return tls === undefined
    ? connectPlain(settings)
    : connectSecure({ ...settings, ...secureSettings(tls, endpoint) })
}

function secureSettings(tls: TlsOptions, endpoint: Endpoint): ConnectionOptions {
  const { ca, cert, key, verifyName = true } = tls
  const host = 'host' in endpoint ? endpoint.host : ''
  // The server name extension does not allow IP addresses; Node verifies an address against the certificate
  // without it.
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

/** Returns the text of a network error, or the fallback if the error has none. */
export function networkText(error: Error, fallback: string): string {
  // A host name with several addresses yields an AggregateError without a text, with one error for each
  // address.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  return first instanceof Error && first.message !== '' ? first.message : fallback
}
