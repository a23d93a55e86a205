import { X509Certificate } from 'node:crypto'
import { isIP, type TcpNetConnectOpts } from 'node:net'
import { checkServerIdentity, connect, type PeerCertificate, type TLSSocket } from 'node:tls'
import { type ChannelCredentials, experimental } from '@grpc/grpc-js'

/** TLS as a client. Changed credentials apply to later connections. */
export interface ClientTls {
  /** Returns the credentials. Called when the client is created, and after each change. */
  credentials(): ClientTlsCredentials
  /**
   * The DNS name that the certificate of the server must have, whatever the address; also sent as SNI. With
   * an IP address, for which RFC 6066 (3) allows no SNI, Node warns once.
   */
  readonly serverName: string
  /**
   * Further checks of the certificate of the server. Called only for certificates that `ca` has issued, with
   * the right name; an error makes the call UNAVAILABLE.
   */
  verifyServer?(certificate: X509Certificate): Error | undefined
  /** Adds a listener for changes of the credentials, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** All in PEM. */
export interface ClientTlsCredentials {
  /** The certificate authorities of the server: one certificate or several. */
  readonly ca: string
  /** The client certificate, if the server requests one. Either always set, or never. */
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
}

/**
 * Converts to the credentials of grpc-js, which reads them for each connection: with invalid credentials
 * calls are UNAVAILABLE until they are replaced.
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
 * Starts to open a connection for HTTP/2 that offers it by ALPN. The event `secureConnect` follows, or
 * `error` with the reason of a failed handshake.
 */
export function connectSecure(address: TcpNetConnectOpts, tls: ClientTls): TLSSocket {
  const { ca, identity } = tls.credentials()
  return connect({
    ...address,
    ca,
    ...identity,
    // RFC 6066 (3) allows no IP address.
    servername: isIP(tls.serverName) === 0 ? tls.serverName : '',
    checkServerIdentity: (_, certificate) => verifyServer(tls, certificate),
    ALPNProtocols: ['h2'],
    minVersion: 'TLSv1.2',
  })
}

/** Calls listeners with a part of the credentials, at once and after each change. */
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
