import type { Log } from '@tollway/chassis/log/log.ts'
import { checkSubjectAltName, TlsFiles } from '@tollway/chassis/net/tls.ts'
import type { ServerTls } from '../server.ts'
import type { GrpcServerSettings } from './server-settings.ts'

export type ServerTlsSettings = Pick<
  GrpcServerSettings,
  'grpcServerTls' | 'grpcServerCertFile' | 'grpcServerKeyFile' | 'grpcClientCaFile' | 'grpcClientSan'
>

interface ServerTlsOptions {
  readonly log: Log
  /** Called each time the files were read: at the start, and after each change. */
  onLoad?(succeeded: boolean): void
}

/**
 * Returns undefined if the settings disable TLS. If changed files are invalid, a warning is logged and the
 * last valid ones stay in use.
 *
 * @throws Error that names the settings and files that are missing or invalid
 */
export function openServerTls(
  settings: ServerTlsSettings,
  { log, onLoad = () => {} }: ServerTlsOptions,
): ServerTls | undefined {
  const { grpcServerCertFile, grpcServerKeyFile, grpcClientCaFile, grpcClientSan } = settings
  checkTogether(settings)
  if (!settings.grpcServerTls) return undefined
  const files = new TlsFiles({
    cert: { setting: 'GRPC_SERVER_TLS_CERT', path: grpcServerCertFile },
    key: { setting: 'GRPC_SERVER_TLS_KEY', path: grpcServerKeyFile },
    ca: { setting: 'GRPC_CLIENT_TLS_CACERT', path: grpcClientCaFile },
    onReloadFailed(reason) {
      onLoad(false)
      log.warn('reload certificates failed', { reason })
    },
  })
  onLoad(true)
  files.onChange(() => onLoad(true))
  return {
    credentials() {
      const { identity, ca } = files.credentials()
      return { cert: identity?.cert ?? '', key: identity?.key ?? '', ca }
    },
    requireClientCert: grpcClientCaFile !== '',
    verifyClient: certificate =>
      grpcClientSan === '' ? undefined : checkSubjectAltName(certificate, grpcClientSan),
    onChange: files.onChange,
    onRejected: (error, peer) => log.debug('reject client', { peer, error: error.message }),
  }
}

/** Throws if a setting is set without another one that it needs. */
function checkTogether(settings: ServerTlsSettings): void {
  const { grpcServerCertFile, grpcServerKeyFile, grpcClientCaFile, grpcClientSan } = settings
  if (!settings.grpcServerTls) {
    if (grpcClientCaFile !== '') throw new Error('GRPC_CLIENT_TLS_CACERT: needs GRPC_SERVER_USE_TLS=true')
    return
  }
  if (grpcServerCertFile === '' || grpcServerKeyFile === '') {
    throw new Error('GRPC_SERVER_USE_TLS: needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY')
  }
  if (grpcClientSan !== '' && grpcClientCaFile === '') {
    throw new Error('GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT')
  }
}
