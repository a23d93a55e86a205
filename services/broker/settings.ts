import { logSettings } from '@tollway/chassis/log/log-settings.ts'
import {
  boolean,
  durationMs,
  integer,
  oneOf,
  settingsTable,
  text,
  type Values,
} from '@tollway/chassis/settings.ts'
import { tracingSettings } from '@tollway/chassis/tracing/tracing-settings.ts'
import { webhookSettings } from '@tollway/chassis/webhooks/webhook-settings.ts'
import { feedSettings } from '@tollway/discovery/feed-settings.ts'
import { grpcServerSettings } from '@tollway/grpc/server/server-settings.ts'

/** Eight messages of the default MAX_MESSAGE_BYTES. */
const defaultRequestMemoryBytes = 128 * 1024 * 1024

const port = integer(0, 65_535)

const pageSettings = settingsTable({
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '127.0.0.1',
    help: 'The address of the debug server, which requires no token and can interrupt streams.',
  },
  debugPort: {
    name: 'DEBUG_PORT',
    kind: port,
    fallback: '6072',
    help: 'The port of the debug server: streams, statistics, metrics and health.',
  },
  adminHost: {
    name: 'ADMIN_HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the admin API.',
  },
  adminPort: {
    name: 'ADMIN_PORT',
    kind: port,
    fallback: '6075',
    help: 'The port of the admin API, with the TLS settings of gRPC; it is open only with ADMIN_TOKEN_FILE.',
  },
  adminTokenFile: {
    name: 'ADMIN_TOKEN_FILE',
    kind: text,
    fallback: '',
    help: 'The file of the tokens of the admin API, one a line; read again when it changes.',
  },
  metricsHost: {
    name: 'METRICS_HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the metrics server.',
  },
  metricsPort: {
    name: 'METRICS_PORT',
    kind: port,
    fallback: '0',
    help: 'A second port, with metrics and health only; 0 for none.',
  },
})

const streamSettings = settingsTable({
  streamLog: {
    name: 'STREAM_LOG',
    kind: oneOf('memory', 'redis'),
    fallback: 'memory',
    help: 'The storage of streams: this process, or a Redis that several brokers share.',
  },
  redisUrl: {
    name: 'REDIS_URL',
    kind: text,
    fallback: 'redis://localhost:6379',
    help: 'This Redis: redis(s)://[user:password@]host:port[/database], host:port, or a unix socket.',
    secret: true,
  },
  redisKeyPrefix: {
    name: 'REDIS_KEY_PREFIX',
    kind: text,
    fallback: 'tollway',
    help: 'The prefix of every key, which separates installations that share a Redis.',
  },
  routes: {
    name: 'ROUTES',
    kind: oneOf('none', 'feed'),
    fallback: 'none',
    help: 'The source of routes: none, so that the defaults apply to all, or a management server.',
  },
  nvidiaAceNames: {
    name: 'NVIDIA_ACE_NAMES',
    kind: boolean,
    fallback: 'false',
    help: 'Also serve the API under the name of the public definition (nvidia_ace.…).',
  },
  maxMessageBytes: {
    name: 'MAX_MESSAGE_BYTES',
    kind: integer(1024, 1 << 30),
    fallback: '16777216',
    help: 'The maximum length of a message. A route can only lower it.',
  },
  maxKeptBytes: {
    name: 'MAX_KEPT_BYTES',
    kind: integer(1_048_576, 2 ** 40),
    fallback: '134217728',
    help: 'The maximum bytes of all streams of a broker in its memory and, of its producers, in Redis.',
  },
  maxPushes: {
    name: 'MAX_PUSHES',
    kind: integer(1, 1_000_000),
    fallback: '10000',
    help: 'The maximum number of concurrent producers.',
  },
  maxPulls: {
    name: 'MAX_PULLS',
    kind: integer(1, 1_000_000),
    fallback: '20000',
    help: 'The maximum number of concurrent consumers.',
  },
  maxWaitingRequests: {
    name: 'MAX_WAITING_REQUESTS',
    kind: integer(1, 10_000),
    fallback: '32',
    help: 'The maximum number of requests in the queue of one pull; the oldest are dropped first.',
  },
  pullIdleMs: {
    name: 'PULL_IDLE_TIMEOUT',
    kind: durationMs,
    fallback: '1h',
    help: 'The maximum time that a pull waits for a matching request; 0 for no limit.',
  },
  headerWaitMs: {
    name: 'HEADER_TIMEOUT',
    kind: durationMs,
    fallback: '30s',
    help: 'The maximum time until the header of a push.',
  },
  resumeGraceMs: {
    name: 'RESUME_GRACE',
    kind: durationMs,
    fallback: '5s',
    help: 'The time that a stream waits for a producer with a lost connection; 0 to end it at once.',
  },
})

const processSettings = settingsTable({
  reusePort: {
    name: 'REUSE_PORT',
    kind: boolean,
    fallback: 'false',
    help: 'Share the gRPC port with other processes of this service on the machine.',
  },
  drainDelayMs: {
    name: 'DRAIN_DELAY',
    kind: durationMs,
    fallback: '5s',
    help: 'The time to accept calls after SIGTERM while the process is unhealthy, so that callers can react.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '20s',
    help: 'The time for running requests to end after that; then they end with ERROR.',
  },
  ...logSettings('warn'),
})

/**
 * Every setting of the broker. Settings that the rate limit service also has are equal in name and meaning.
 */
export const settings = settingsTable({
  ...grpcServerSettings('8082', defaultRequestMemoryBytes),
  ...pageSettings,
  ...streamSettings,
  ...feedSettings,
  ...webhookSettings,
  ...processSettings,
  ...tracingSettings('AnimationBroker'),
})

export type Settings = Values<typeof settings>
