import type { Log } from '@tollway/chassis/log/log.ts'
import { openServerTls, type ServerTlsSettings } from '@tollway/grpc/server/open-server-tls.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { Stats } from '../stats/stats.ts'

/**
 * Opens the TLS of the gRPC server; see `openServerTls`. Each load of the files is counted as
 * `certs.load_attempts`, and a failed load also as `certs.load_failures`. The gauge `certs.num_values` is the
 * number of files.
 *
 * @throws Error that names the settings and files that are missing or invalid.
 */
export function openGrpcTls(
  settings: ServerTlsSettings,
  stats: Pick<Stats, 'counter' | 'gauge'>,
  log: Log,
): ServerTls | undefined {
  const tls = openServerTls(settings, {
    log,
    onLoad(succeeded) {
      stats.counter('certs.load_attempts').value += 1
      stats.counter('certs.load_failures').value += succeeded ? 0 : 1
    },
  })
  if (tls !== undefined) stats.gauge('certs.num_values', () => (settings.grpcClientCaFile === '' ? 2 : 3))
  return tls
}
