import type { Log } from '@tollway/chassis/log.ts'
import { checkSubjectAltName, openTlsFiles } from '@tollway/chassis/tls.ts'
import type { ServerTls } from './server.ts'
import type { GrpcServerSettings } from './server-settings.ts'

/** The settings of TLS for gRPC callers. */
export type ServerTlsSettings = Pick<
  GrpcServerSettings,
  'grpcServerTls' | 'grpcServerCertFile' | 'grpcServerKeyFile' | 'grpcClientCaFile' | 'grpcClientSan'
>

export interface ServerTlsOptions {
  readonly log: Log
  /** Told of each time the files were read: at the opening, and after each change. */
  onLoad?(succeeded: boolean): void
}

/**
 * How gRPC callers are served: undefined without TLS. The files are read again when they change; those that are
 * wrong change nothing, which is told in the log.
 *
 * @throws Error that names the settings and files that are missing or wrong.
 */
export function openServerTls(
  settings: ServerTlsSettings,
  { log, onLoad = () => {} }: ServerTlsOptions,
): ServerTls | undefined {
  const { grpcServerCertFile, grpcServerKeyFile, grpcClientCaFile, grpcClientSan } = settings
  checkTogether(settings)
  if (!settings.grpcServerTls) return undefined
  const files = openTlsFiles({
    cert: { setting: 'GRPC_SERVER_TLS_CERT', path: grpcServerCertFile },
    key: { setting: 'GRPC_SERVER_TLS_KEY', path: grpcServerKeyFile },
    ca: { setting: 'GRPC_CLIENT_TLS_CACERT', path: grpcClientCaFile },
    onWarning(text) {
      onLoad(false)
      log.warn(text)
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
    onRefused: (error, peer) => log.debug('a caller was refused', { peer, error: error.message }),
  }
}

/** What a setting that nobody honours would promise in vain. */
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
