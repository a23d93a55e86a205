import { getCACertificates } from 'node:tls'
import { checkSubjectAltName, openTlsFiles } from '@tollway/chassis/net/tls.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'

/** TLS to the management server, with files that are watched until it is closed. */
export interface XdsTls extends ClientTls {
  /**
   * Returns the files that are waited for; empty when there are credentials. No connection is possible
   * before.
   */
  missing(): string
  close(): void
}

export interface XdsTlsOptions {
  /** Paths; empty if the setting is unset. Without an authority those of the system apply. */
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  /** The name that the server's certificate must have; empty for the host. */
  readonly subjectAltName: string
  /** The host of the server: a DNS name or an IP address, without a port. */
  readonly host: string
  /** Called with the reason why changed files are not used. */
  onWarning(text: string): void
}

/**
 * Opens the files. Renewed files are used by the next connection. Missing files are waited for: in a cluster
 * they come from a Secret that the operator creates, perhaps after this process has started. As in the
 * reference, a name override is a DNS name or an IP address, and only subject alternative names count.
 *
 * @throws Error that names every setting with an invalid file, and its problem
 */
export function openXdsTls(options: XdsTlsOptions): XdsTls {
  const { certFile, keyFile, caFile, subjectAltName, host, onWarning } = options
  if (subjectAltName.includes('://')) {
    throw new Error(
      `CONFIG_GRPC_XDS_SERVER_TLS_SAN: "${subjectAltName}" is neither a DNS name nor an IP address`,
    )
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
