import { logSettings } from '@tollway/chassis/log/log-settings.ts'
import {
  boolean,
  durationMs,
  integer,
  oneOf,
  type SettingValues,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'
import { tracingSettings } from '@tollway/chassis/tracing/tracing-settings.ts'
import { webhookSettings } from '@tollway/chassis/webhooks/webhook-settings.ts'
import { grpcServerSettings } from '@tollway/grpc/server/server-settings.ts'
import { feedSettings } from '@tollway/xds-client/feed-settings.ts'

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
    help:
      'The port of the admin API. It uses the TLS settings of gRPC, and is open only with ' +
      'ADMIN_TOKEN_FILE.',
  },
  adminTokenFile: {
    name: 'ADMIN_TOKEN_FILE',
    kind: text,
    fallback: '',
    help: 'The file of the tokens of the admin API, one in each line. It is read again when it changes.',
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
    help: 'The port of the metrics server, which serves metrics and health only. 0 disables it.',
  },
})

const streamSettings = settingsTable({
  streamLog: {
    name: 'STREAM_LOG',
    kind: oneOf('memory', 'redis'),
    fallback: 'memory',
    help: 'The storage of streams: the memory of this process, or a Redis that several brokers share.',
  },
  redisUrl: {
    name: 'REDIS_URL',
    kind: text,
    fallback: 'redis://localhost:6379',
    help:
      'The address of Redis: redis(s)://[user:password@]host:port[/database], host:port, or a unix ' +
      'socket.',
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
    help: 'The source of routes. none: the defaults apply to all requests. feed: a management server.',
  },
  nvidiaAceNames: {
    name: 'NVIDIA_ACE_NAMES',
    kind: boolean,
    fallback: 'false',
    help: 'Serve the API also under the names of the public definition (nvidia_ace.…).',
  },
  maxMessageBytes: {
    name: 'MAX_MESSAGE_BYTES',
    kind: integer(1024, 1 << 30),
    fallback: '16777216',
    help: 'The maximum size of a message in bytes. A route can only lower it.',
  },
  maxKeptBytes: {
    name: 'MAX_KEPT_BYTES',
    kind: integer(1_048_576, 2 ** 40),
    fallback: '134217728',
    help:
      'The maximum bytes of all streams in the memory of a broker, and of the streams of its ' +
      'producers in Redis.',
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
    help: 'The maximum number of requests in the queue of one pull. The oldest requests are dropped first.',
  },
  pullIdleMs: {
    name: 'PULL_IDLE_TIMEOUT',
    kind: durationMs,
    fallback: '1h',
    help: 'The maximum time that a pull waits for a matching request. 0 means no limit.',
  },
  headerWaitMs: {
    name: 'HEADER_TIMEOUT',
    kind: durationMs,
    fallback: '30s',
    help: 'The maximum time between the begin of a push and its header.',
  },
  resumeGraceMs: {
    name: 'RESUME_GRACE',
    kind: durationMs,
    fallback: '5s',
    help: 'The time that a stream waits for a producer that lost its connection. 0 ends the stream at once.',
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
    help: 'The time after SIGTERM in which the process is unhealthy and still accepts calls.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '20s',
    help: 'The time after DRAIN_DELAY at which running requests end with ERROR.',
  },
  ...logSettings('warn'),
})

/** Settings that the rate limit service also has are the same in name and meaning. */
export const settings = settingsTable({
  ...grpcServerSettings('8082', defaultRequestMemoryBytes),
  ...pageSettings,
  ...streamSettings,
  ...feedSettings,
  ...webhookSettings,
  ...processSettings,
  ...tracingSettings('AnimationBroker'),
})

export type Settings = SettingValues<typeof settings>
