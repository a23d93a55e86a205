import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectSecure } from 'node:tls'

export type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string }

/** `host:port`, or the path of a unix socket. */
export function endpointText(endpoint: Endpoint): string {
  return 'path' in endpoint ? endpoint.path : `${endpoint.host}:${endpoint.port}`
}

/** The certificates and the key are PEM. */
export interface TlsOptions {
  /** The authorities that the server's certificate may come from. */
  readonly ca?: string | Buffer
  /** This client's own certificate, and its key. */
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  /** The name that the server's certificate must have; the host when left out. */
  readonly servername?: string
  /** False accepts any name; the certificate must come from one of the authorities all the same. */
  readonly verifyName?: boolean
}

export interface SocketOptions {
  readonly endpoint: Endpoint
  readonly tls: TlsOptions | undefined
  /** The memory into which everything is read. */
  readonly receiveBytes: number
}

/** An idle connection that is dead is noticed by the kernel, not by the next call. */
const keepAliveDelayMs = 15_000

/**
 * Begins to connect to a backend; the socket tells `connect`, or `secureConnect` where there is TLS.
 *
 * @param onData reads the first bytes of the chunk, whose memory is then used again; false stops reading
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
  // The extension that tells the server its name takes no addresses; those are checked all the same.
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

/** What the network says of an error; the fallback where it says nothing. */
export function networkText(error: Error, fallback: string): string {
  // A host name with several addresses brings one error for each of them, and no text of its own.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  return first instanceof Error && first.message !== '' ? first.message : fallback
}
