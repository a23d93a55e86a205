import { openClientTls, type WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'

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
  onReloadFailed(reason: string): void
}

/**
 * Opens the files of TLS to the management server. Missing files are waited for: in a cluster they come from
 * a Secret that the operator creates, perhaps after this process has started. As in the reference, a name
 * override is a DNS name or an IP address.
 *
 * @throws Error that names every setting with an invalid file, and its problem
 */
export function openXdsTls(options: XdsTlsOptions): WatchedClientTls {
  const { certFile, keyFile, caFile, subjectAltName, host, onReloadFailed } = options
  if (subjectAltName.includes('://')) {
    throw new Error(
      `CONFIG_GRPC_XDS_SERVER_TLS_SAN: "${subjectAltName}" is neither a DNS name nor an IP address`,
    )
  }
  return openClientTls({
    cert: { setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT', path: certFile },
    key: { setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY', path: keyFile },
    ca: { setting: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT', path: caFile },
    serverName: subjectAltName || host,
    onReloadFailed,
    mayComeLater: true,
  })
}
