import { X509Certificate } from 'node:crypto'
import { isIP, type TcpNetConnectOpts } from 'node:net'
import { checkServerIdentity, connect, type PeerCertificate, type TLSSocket } from 'node:tls'
import { type ChannelCredentials, experimental } from '@grpc/grpc-js'

/** Changed credentials apply to later connections. */
export interface ClientTls {
  /** Called when the client is created, and after each change. */
  credentials(): ClientTlsCredentials
  /**
   * The name that the certificate must have, whatever address is dialed; also sent as SNI. For an IP address,
   * which RFC 6066 (3) does not allow as SNI, Node warns once.
   */
  readonly serverName: string
  /**
   * Checks more of a certificate that `ca` has issued for the right name. With a returned error, calls fail
   * with UNAVAILABLE.
   */
  verifyServer?(certificate: X509Certificate): Error | undefined
  /** Adds a listener, until the returned function is called. */
  onChange(listener: () => void): () => void
}

interface ClientTlsCredentials {
  /** The authorities of the server in PEM: one certificate or several. */
  readonly ca: string
  /** The identity for servers that request a certificate, set at all times or never. */
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
}

/**
 * grpc-js reads the current credentials for each connection. While they are invalid, calls fail with
 * UNAVAILABLE.
 */
export function toChannelCredentials(tls: ClientTls): ChannelCredentials {
  const authority = follow(tls, ({ ca }) => ({ caCertificate: Buffer.from(ca) }))
  const identity = follow(tls, ({ identity: { cert = '', key = '' } = {} }) => ({
    certificate: Buffer.from(cert),
    privateKey: Buffer.from(key),
  }))
  const provider: experimental.CertificateProvider = {
    addCaCertificateListener: authority.add,
    removeCaCertificateListener: authority.remove,
    addIdentityCertificateListener: identity.add,
    removeIdentityCertificateListener: identity.remove,
  }
  const showsIdentity = tls.credentials().identity !== undefined
  return experimental.createCertificateProviderChannelCredentials(provider, showsIdentity ? provider : null, {
    checkServerIdentity: (_, certificate) => verifyServer(tls, certificate),
  })
}

function verifyServer(tls: ClientTls, certificate: PeerCertificate): Error | undefined {
  return (
    checkServerIdentity(tls.serverName, certificate) ??
    tls.verifyServer?.(new X509Certificate(certificate.raw))
  )
}

/**
 * Offers HTTP/2 by ALPN. The socket emits `secureConnect` when it is open, or `error` with the reason of a
 * failed handshake.
 */
export function connectSecure(address: TcpNetConnectOpts, tls: ClientTls): TLSSocket {
  const { ca, identity } = tls.credentials()
  return connect({
    ...address,
    ca,
    ...identity,
    // RFC 6066 (3) allows no IP address as SNI.
    servername: isIP(tls.serverName) === 0 ? tls.serverName : '',
    checkServerIdentity: (_, certificate) => verifyServer(tls, certificate),
    ALPNProtocols: ['h2'],
    minVersion: 'TLSv1.2',
  })
}

/** Each added listener is called with a part of the credentials at once and after each change. */
function follow<Update>(tls: ClientTls, read: (credentials: ClientTlsCredentials) => Update) {
  const stops = new Map<(update: Update) => void, () => void>()
  return {
    add(listener: (update: Update) => void): void {
      const notify = () => listener(read(tls.credentials()))
      stops.set(listener, tls.onChange(notify))
      notify()
    },
    remove(listener: (update: Update) => void): void {
      stops.get(listener)?.()
      stops.delete(listener)
    },
  }
}
