import { openClientTls, type WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'
import type { FeedSettings } from './feed-settings.ts'

type XdsTlsSettings = Pick<
  FeedSettings,
  'xdsServer' | 'xdsServerSan' | 'xdsCertFile' | 'xdsKeyFile' | 'xdsCaFile'
>

/**
 * Missing files are awaited: in a cluster they come from a Secret that the operator creates, perhaps after
 * the start of this process. As in envoyproxy/ratelimit, the name of the server is no URI.
 *
 * @throws Error that names every setting with an invalid file, and its problem
 */
export function openXdsTls(
  { xdsServer, xdsServerSan, xdsCertFile, xdsKeyFile, xdsCaFile }: XdsTlsSettings,
  onReloadFailed: (reason: string) => void,
): WatchedClientTls {
  if (xdsServerSan.includes('://')) {
    throw new Error(
      `CONFIG_GRPC_XDS_SERVER_TLS_SAN: "${xdsServerSan}" is neither a DNS name nor an IP address`,
    )
  }
  return openClientTls({
    cert: { setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT', path: xdsCertFile },
    key: { setting: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY', path: xdsKeyFile },
    ca: { setting: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT', path: xdsCaFile },
    serverName: xdsServerSan || xdsServer.host || 'localhost',
    onReloadFailed,
    mayComeLater: true,
  })
}
