import { openClientTls, type WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'

export interface XdsTlsOptions {
  /**
   * The paths of the files; empty if the setting is unset. Without `caFile`, the system's authorities apply.
   */
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  /** The name that the server's certificate must have; if empty, the name is `host`. */
  readonly subjectAltName: string
  /** The host of the server: a DNS name or an IP address, without a port. */
  readonly host: string
  /**
   * Called once for each change that makes the files invalid, with the reason. The previous files stay in
   * use.
   */
  onReloadFailed(reason: string): void
}

/**
 * Opens the TLS files for the management server. Missing files are awaited: in a cluster they come from a
 * Secret that the operator creates, perhaps after the start of this process. As in envoyproxy/ratelimit,
 * `subjectAltName` is a DNS name or an IP address, not a URI.
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
