import { X509Certificate } from 'node:crypto'
import { isIP, type TcpNetConnectOpts } from 'node:net'
import { checkServerIdentity, connect, type PeerCertificate, type TLSSocket } from 'node:tls'
import { type ChannelCredentials, experimental } from '@grpc/grpc-js'

/** The TLS of a client. Changed credentials apply to later connections. */
export interface ClientTls {
  /** Returns the credentials. Called when the client is created, and after each change. */
  credentials(): ClientTlsCredentials
  /**
   * The DNS name that the server's certificate must have, whatever address is dialed; also sent as SNI. If it
   * is an IP address, for which RFC 6066 (3) allows no SNI, Node warns once.
   */
  readonly serverName: string
  /**
   * Checks more of the server's certificate. With a returned error, calls fail with UNAVAILABLE. Called only
   * for certificates that `ca` has issued for the right name.
   */
  verifyServer?(certificate: X509Certificate): Error | undefined
  /** Adds a listener for changes of the credentials, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** The credentials in PEM. */
export interface ClientTlsCredentials {
  /** The certificate authorities of the server: one certificate or several. */
  readonly ca: string
  /** The client certificate, for servers that request one. It is either set at all times or never. */
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
}

/**
 * Returns credentials for grpc-js, which reads the current ones for each connection. While they are invalid,
 * calls fail with UNAVAILABLE.
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
 * Starts a TLS connection that offers HTTP/2 by ALPN. The socket emits `secureConnect` when it is open, or
 * `error` with the reason of a failed handshake.
 */
export function connectSecure(address: TcpNetConnectOpts, tls: ClientTls): TLSSocket {
  const { ca, identity } = tls.credentials()
  return connect({
    ...address,
    ca,
    ...identity,
    // SNI must not be an IP address (RFC 6066, 3).
    servername: isIP(tls.serverName) === 0 ? tls.serverName : '',
    checkServerIdentity: (_, certificate) => verifyServer(tls, certificate),
    ALPNProtocols: ['h2'],
    minVersion: 'TLSv1.2',
  })
}

/**
 * Returns functions to add and remove listeners, each of which is called with a part of the credentials at
 * once and after each change.
 */
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
