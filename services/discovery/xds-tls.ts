import { getCACertificates } from 'node:tls'
import { checkSubjectAltName, openTlsFiles } from '@tollway/chassis/tls.ts'
import type { ClientTls } from '@tollway/grpc/client-tls.ts'

/** TLS to the management server, of files that are watched until it is closed. */
export interface XdsTls extends ClientTls {
  /**
   * Which files are waited for; empty when there are credentials. Before that there is nothing to connect
   * with.
   */
  missing(): string
  close(): void
}

export interface XdsTlsOptions {
  /** Paths; empty where the setting is not made. Without an authority those of the system count. */
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  /** The name that the server's certificate must have; empty for the one by which it is addressed. */
  readonly subjectAltName: string
  /** How the server is addressed: a DNS name or an IP address, without a port. */
  readonly host: string
  /** Told why changed files are not used. */
  onWarning(text: string): void
}

/**
 * Renewed files are used by the next connection. Files that are not there yet are waited for: in a cluster
 * they come from a Secret that the operator makes, perhaps after this process has started. As in the
 * reference, an override of the name is a DNS name or an IP address, and only subject alternative names
 * count.
 *
 * @throws Error that names every setting whose file is wrong, and what is wrong with it.
 */
export function openXdsTls(options: XdsTlsOptions): XdsTls {
  const { certFile, keyFile, caFile, subjectAltName, host, onWarning } = options
  if (subjectAltName.includes('://')) {
    throw new Error(`CONFIG_GRPC_XDS_SERVER_TLS_SAN: "${subjectAltName}" is no DNS name and no IP address`)
  }
  const files = openTlsFiles({
    cert: { setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT', path: certFile },
    key: { setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY', path: keyFile },
    ca: { setting: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT', path: caFile },
    onWarning,
    mayComeLater: true,
  })
  const systemCa = caFile === '' ? getCACertificates('default').join('\n') : ''
  const serverName = subjectAltName || host
  return {
    serverName,
    credentials() {
      const { identity, ca = systemCa } = files.credentials()
      return { ca, identity }
    },
    verifyServer: certificate => checkSubjectAltName(certificate, serverName),
    onChange: files.onChange,
    missing: files.missing,
    close: files.close,
  }
}
