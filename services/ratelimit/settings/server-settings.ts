import { boolean, durationMs, integer, oneOf, settingsTable, text } from '@tollway/chassis/settings.ts'

const port = integer(0, 65_535)

/** Servers, their health and end, and the log. */
export const serverSettings = settingsTable({
  host: { name: 'HOST', kind: text, fallback: '0.0.0.0', help: 'The address of the HTTP server.' },
  port: { name: 'PORT', kind: port, fallback: '8080', help: 'The port of the HTTP server.' },
  grpcHost: { name: 'GRPC_HOST', kind: text, fallback: '0.0.0.0', help: 'The address of the gRPC server.' },
  grpcPort: { name: 'GRPC_PORT', kind: port, fallback: '8081', help: 'The port of the gRPC server.' },
  grpcUnixSocket: {
    name: 'GRPC_UDS',
    kind: text,
    fallback: '',
    help: 'The path of a unix socket, which then replaces the port.',
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
    help: 'The file of the certificate chain; read again when it changes.',
  },
  grpcServerKeyFile: {
    name: 'GRPC_SERVER_TLS_KEY',
    kind: text,
    fallback: '',
    help: 'The file of its private key.',
  },
  grpcClientCaFile: {
    name: 'GRPC_CLIENT_TLS_CACERT',
    kind: text,
    fallback: '',
    help: 'The file of those who vouch for callers, each of whom then needs a certificate (mutual TLS).',
  },
  grpcClientSan: {
    name: 'GRPC_CLIENT_TLS_SAN',
    kind: text,
    fallback: '',
    help: 'A name that the certificate of a caller must have.',
  },
  grpcMaxConnectionAgeMs: {
    name: 'GRPC_MAX_CONNECTION_AGE',
    kind: durationMs,
    fallback: '24h',
    help: 'A connection older than this, give or take 10 %, is told to go.',
  },
  grpcMaxConnectionAgeGraceMs: {
    name: 'GRPC_MAX_CONNECTION_AGE_GRACE',
    kind: durationMs,
    fallback: '1h',
    help: 'After that long more it is closed.',
  },
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the debug server.',
  },
  debugPort: { name: 'DEBUG_PORT', kind: port, fallback: '6070', help: 'The port of the debug server.' },
  workers: {
    name: 'WORKERS',
    kind: integer(1, 64),
    fallback: '1',
    help: 'Processes that share the ports; health, statistics and drain stay those of one service.',
  },
  reusePort: {
    name: 'REUSE_PORT',
    kind: boolean,
    fallback: 'false',
    help: 'Share the gRPC and HTTP ports with other processes of this service on the machine.',
  },
  drainDelayMs: {
    name: 'DRAIN_DELAY',
    kind: durationMs,
    fallback: '5s',
    help: 'How long calls are taken after SIGTERM, while the process is unhealthy: callers must notice.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '10s',
    help: 'How long running calls may take after that.',
  },
  healthyWithConfig: {
    name: 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED',
    kind: boolean,
    fallback: 'false',
    help: 'Healthy only while at least one domain is loaded.',
  },
  logLevel: {
    name: 'LOG_LEVEL',
    kind: oneOf('debug', 'info', 'warn', 'warning', 'error'),
    fallback: 'warn',
    help: 'What is logged.',
  },
  logFormat: {
    name: 'LOG_FORMAT',
    kind: oneOf('text', 'json'),
    fallback: 'text',
    help: 'The shape of log lines.',
  },
})
