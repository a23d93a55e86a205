import type { Log } from '@tollway/chassis/log.ts'
import { checkSubjectAltName, openTlsFiles } from '@tollway/chassis/tls.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { Stats } from '../stats/stats.ts'

/** The settings of TLS for gRPC callers, as `settings.ts` reads them. */
export interface GrpcTlsSettings {
  readonly grpcServerTls: boolean
  readonly grpcServerCertFile: string
  readonly grpcServerKeyFile: string
  /** Empty when callers need no certificate. */
  readonly grpcClientCaFile: string
  /** A name that the certificate of each caller must have; empty for any. */
  readonly grpcClientSan: string
}

/**
 * How gRPC callers are served: undefined without TLS. The files are read again when they change, which is counted
 * as `certs.load_attempts` and `certs.load_failures`; `certs.num_values` tells how many files there are.
 *
 * @throws Error that names the settings and files that are missing or wrong.
 */
export function openGrpcTls(
  settings: GrpcTlsSettings,
  stats: Pick<Stats, 'counter' | 'gauge'>,
  log: Log,
): ServerTls | undefined {
  const { grpcServerTls, grpcServerCertFile, grpcServerKeyFile, grpcClientCaFile, grpcClientSan } = settings
  if (!grpcServerTls) {
    if (grpcClientCaFile !== '') throw new Error('GRPC_CLIENT_TLS_CACERT: needs GRPC_SERVER_USE_TLS=true')
    return undefined
  }
  if (grpcServerCertFile === '' || grpcServerKeyFile === '') {
    throw new Error('GRPC_SERVER_USE_TLS: needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY')
  }
  if (grpcClientSan !== '' && grpcClientCaFile === '') {
    throw new Error('GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT')
  }
  const loads = createLoadStats(stats)
  const files = openTlsFiles({
    cert: { setting: 'GRPC_SERVER_TLS_CERT', path: grpcServerCertFile },
    key: { setting: 'GRPC_SERVER_TLS_KEY', path: grpcServerKeyFile },
    ca: { setting: 'GRPC_CLIENT_TLS_CACERT', path: grpcClientCaFile },
    onWarning(text) {
      loads.failed()
      log.warn(text)
    },
  })
  loads.loaded()
  files.onChange(loads.loaded)
  stats.gauge('certs.num_values', () => (grpcClientCaFile === '' ? 2 : 3))
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

function createLoadStats(stats: Pick<Stats, 'counter'>) {
  const attempts = stats.counter('certs.load_attempts')
  const failures = stats.counter('certs.load_failures')
  return {
    loaded() {
      attempts.value += 1
    },
    failed() {
      attempts.value += 1
      failures.value += 1
    },
  }
}
