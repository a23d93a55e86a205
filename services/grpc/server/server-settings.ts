import { defaultRequestMemoryBytes } from '@tollway/chassis/memory-budget.ts'
import {
  boolean,
  durationMs,
  integer,
  type SettingValues,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'
import type { ListenAddress } from '../server.ts'

const port = integer(0, 65_535)
/** The least memory for unfinished requests: twice the default limit of a request message. */
const minRequestMemoryBytes = 8 * 1024 * 1024

export function grpcServerSettings(
  defaultPort: string,
  requestMemoryBytes: number = defaultRequestMemoryBytes,
) {
  return settingsTable({
    grpcHost: { name: 'GRPC_HOST', kind: text, fallback: '0.0.0.0', help: 'The address of the gRPC server.' },
    grpcPort: { name: 'GRPC_PORT', kind: port, fallback: defaultPort, help: 'The port of the gRPC server.' },
    grpcUnixSocket: {
      name: 'GRPC_UDS',
      kind: text,
      fallback: '',
      help: 'The path of a unix socket, on which gRPC is served instead of the port.',
    },
    grpcServerTls: {
      name: 'GRPC_SERVER_USE_TLS',
      kind: boolean,
      fallback: 'false',
      help: 'Serve gRPC over TLS.',
    },
    grpcServerCertFile: {
      name: 'GRPC_SERVER_TLS_CERT',
      kind: text,
      fallback: '',
      help: 'The file of the certificate chain. It is read again when it changes.',
    },
    grpcServerKeyFile: {
      name: 'GRPC_SERVER_TLS_KEY',
      kind: text,
      fallback: '',
      help: 'The file of the private key of GRPC_SERVER_TLS_CERT.',
    },
    grpcClientCaFile: {
      name: 'GRPC_CLIENT_TLS_CACERT',
      kind: text,
      fallback: '',
      help:
        'The file of the certificate authorities of callers. With it, callers need a certificate ' +
        '(mutual TLS).',
    },
    grpcClientSan: {
      name: 'GRPC_CLIENT_TLS_SAN',
      kind: text,
      fallback: '',
      help: 'The name that the certificate of a caller must have.',
    },
    grpcMaxConnectionAgeMs: {
      name: 'GRPC_MAX_CONNECTION_AGE',
      kind: durationMs,
      fallback: '24h',
      help: 'The age of a connection, plus or minus 10 %, at which it is drained.',
    },
    grpcMaxConnectionAgeGraceMs: {
      name: 'GRPC_MAX_CONNECTION_AGE_GRACE',
      kind: durationMs,
      fallback: '1h',
      help: 'The time after the begin of the drain at which the connection is closed.',
    },
    requestMemoryBytes: {
      name: 'REQUEST_MEMORY_BYTES',
      kind: integer(minRequestMemoryBytes, 2 ** 40),
      fallback: String(requestMemoryBytes),
      help:
        'The maximum memory of all unfinished requests of a process in bytes. Requests beyond it are ' +
        'rejected.',
    },
  })
}

export type GrpcServerSettings = SettingValues<ReturnType<typeof grpcServerSettings>>

export interface GrpcAddressSettings
  extends Pick<GrpcServerSettings, 'grpcHost' | 'grpcPort' | 'grpcUnixSocket'> {
  /** Whether processes share the port. Each service has a setting of its own for this. */
  readonly reusePort: boolean
}

/** Returns the address of the gRPC server: the unix socket if GRPC_UDS is set. */
export function grpcAddress({
  grpcUnixSocket,
  grpcHost,
  grpcPort,
  reusePort,
}: GrpcAddressSettings): ListenAddress {
  return grpcUnixSocket === ''
    ? { host: grpcHost, port: grpcPort, reusePort }
    : { socketPath: grpcUnixSocket }
}
