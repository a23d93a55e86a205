import { X509Certificate } from 'node:crypto'
import { checkServerIdentity } from 'node:tls'
import { type ChannelCredentials, experimental } from '@grpc/grpc-js'

/** TLS as a client. A change of the credentials concerns connections that are made after it. */
export interface ClientTls {
  /** Asked when the client is made, and after each change. */
  credentials(): ClientTlsCredentials
  /**
   * The DNS name that the certificate of the server must have, whatever the address; sent as SNI, too. With
   * an IP address, of which RFC 6066 (3) allows no SNI, Node warns once.
   */
  readonly serverName: string
  /**
   * What else has to be true of the certificate of the server. Asked only of certificates that `ca` vouches
   * for, with the right name; an error makes the call UNAVAILABLE.
   */
  verifyServer?(certificate: X509Certificate): Error | undefined
  /** Calls back after each change of the credentials, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** All in PEM. */
export interface ClientTlsCredentials {
  /** Who vouches for the server: one certificate or several. */
  readonly ca: string
  /** What the client shows when the server asks who it is. Either always there, or never. */
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
}

/**
 * What the library wants to know to connect. It asks anew for each connection: with credentials that are none
 * calls are UNAVAILABLE, until better ones come.
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
    checkServerIdentity: (name, certificate) =>
      checkServerIdentity(name, certificate) ?? tls.verifyServer?.(new X509Certificate(certificate.raw)),
  })
}

/** Tells listeners what they are interested in: now, and after each change. */
function follow<Update>(tls: ClientTls, read: (credentials: ClientTlsCredentials) => Update) {
  const stops = new Map<(update: Update) => void, () => void>()
  return {
    add(listener: (update: Update) => void): void {
      const tell = () => listener(read(tls.credentials()))
      stops.set(listener, tls.onChange(tell))
      tell()
    },
    remove(listener: (update: Update) => void): void {
      stops.get(listener)?.()
      stops.delete(listener)
    },
  }
}
