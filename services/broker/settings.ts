import { logSettings } from '@tollway/chassis/log-settings.ts'
import {
  boolean,
  durationMs,
  integer,
  oneOf,
  settingsTable,
  text,
  type Values,
} from '@tollway/chassis/settings.ts'
import { tracingSettings } from '@tollway/chassis/tracing-settings.ts'
import { feedSettings } from '@tollway/discovery/feed-settings.ts'
import { grpcServerSettings } from '@tollway/grpc/server-settings.ts'

/** Eight messages of the longest kind that MAX_MESSAGE_BYTES allows by default. */
const defaultRequestMemoryBytes = 128 * 1024 * 1024

const port = integer(0, 65_535)

const pageSettings = settingsTable({
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '127.0.0.1',
    help: 'The address of the debug server, which asks for no token and can interrupt streams.',
  },
  debugPort: {
    name: 'DEBUG_PORT',
    kind: port,
    fallback: '6072',
    help: 'The port of the debug server: streams, statistics, metrics and health.',
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
    help: 'A second port, with metrics and health alone; 0 for none.',
  },
})

const streamSettings = settingsTable({
  streamLog: {
    name: 'STREAM_LOG',
    kind: oneOf('memory', 'redis'),
    fallback: 'memory',
    help: 'Where streams are kept: in this process, or in a Redis that several brokers share.',
  },
  redisUrl: {
    name: 'REDIS_URL',
    kind: text,
    fallback: 'redis://localhost:6379',
    help: 'That Redis: redis(s)://[user:password@]host:port[/database], host:port, or a unix socket.',
    secret: true,
  },
  redisKeyPrefix: {
    name: 'REDIS_KEY_PREFIX',
    kind: text,
    fallback: 'tollway',
    help: 'The beginning of every key, which tells apart installations that share a Redis.',
  },
  routes: {
    name: 'ROUTES',
    kind: oneOf('none', 'feed'),
    fallback: 'none',
    help: 'Where routes come from: nowhere, so that the defaults hold for all, or a management server.',
  },
  nvidiaAceNames: {
    name: 'NVIDIA_ACE_NAMES',
    kind: boolean,
    fallback: 'false',
    help: 'Serve the same under the name of the public definition, too (nvidia_ace.…).',
  },
  maxMessageBytes: {
    name: 'MAX_MESSAGE_BYTES',
    kind: integer(1024, 1 << 30),
    fallback: '16777216',
    help: 'No message is taken that is longer, whatever its route allows.',
  },
  maxKeptBytes: {
    name: 'MAX_KEPT_BYTES',
    kind: integer(1_048_576, 2 ** 40),
    fallback: '134217728',
    help: 'The bytes that all streams of a broker may hold in its memory and, of its producers, in Redis.',
  },
  maxPushes: {
    name: 'MAX_PUSHES',
    kind: integer(1, 1_000_000),
    fallback: '10000',
    help: 'Producers at the same time.',
  },
  maxPulls: {
    name: 'MAX_PULLS',
    kind: integer(1, 1_000_000),
    fallback: '20000',
    help: 'Consumers at the same time.',
  },
  maxWaitingRequests: {
    name: 'MAX_WAITING_REQUESTS',
    kind: integer(1, 10_000),
    fallback: '32',
    help: 'Requests that wait for their turn in one pull; of more, the oldest are dropped.',
  },
  pullIdleMs: {
    name: 'PULL_IDLE_TIMEOUT',
    kind: durationMs,
    fallback: '1h',
    help: 'How long a pull waits while no request matches; 0 for ever.',
  },
  headerWaitMs: {
    name: 'HEADER_TIMEOUT',
    kind: durationMs,
    fallback: '30s',
    help: 'How long a push may take for its header.',
  },
  resumeGraceMs: {
    name: 'RESUME_GRACE',
    kind: durationMs,
    fallback: '5s',
    help: 'How long a stream waits for a producer whose connection is lost; 0 to end it at once.',
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
    help: 'How long calls are taken after SIGTERM, while the process is unhealthy: callers must notice.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '20s',
    help: 'How long running requests may take after that; then they end with ERROR.',
  },
  ...logSettings('warn'),
})

/** Every setting of the broker. What the rate limit service has too has the same name and means the same. */
export const settings = settingsTable({
  ...grpcServerSettings('8082', defaultRequestMemoryBytes),
  ...pageSettings,
  ...streamSettings,
  ...feedSettings,
  ...processSettings,
  ...tracingSettings('AnimationBroker'),
})

export type Settings = Values<typeof settings>
