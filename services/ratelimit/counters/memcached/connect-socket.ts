import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectSecure } from 'node:tls'
import type { Endpoint, TlsOptions } from '../resp/session.ts'

const receiveBytes = 16_384
/** An idle connection that is dead is noticed by the kernel, not by the next call. */
const keepAliveDelayMs = 15_000

/**
 * Begins to connect; the socket tells `connect`, or `secureConnect` where there is TLS.
 *
 * @param onData reads the first bytes of the chunk, whose memory is then used again; false stops reading
 */
export function connectSocket(
  endpoint: Endpoint,
  tls: TlsOptions | undefined,
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
