import {
  boolean,
  durationAtLeast,
  durationMs,
  integer,
  oneOf,
  type SettingKind,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'

/** The topology, in upper or lower case as in envoyproxy/ratelimit. */
const redisType: SettingKind<'single' | 'sentinel' | 'cluster'> = {
  allowed: 'single, sentinel or cluster',
  parse(value) {
    const type = value.toLowerCase()
    return type === 'single' || type === 'sentinel' || type === 'cluster' ? type : undefined
  },
}

const pipelineLimitHelp =
  'The number of collected commands at which they are written early. 0 means no limit, or 50 without a window.'

export const redisSettings = settingsTable({
  redisType: {
    name: 'KVSTORE_TYPE',
    aliases: ['REDIS_TYPE'],
    kind: redisType,
    fallback: 'single',
    help: 'The topology of the Redis servers: single, sentinel or cluster.',
  },
  redisSocketType: {
    name: 'KVSTORE_SOCKET_TYPE',
    aliases: ['REDIS_SOCKET_TYPE'],
    kind: oneOf('unix', 'tcp'),
    fallback: 'unix',
    help: 'The type of the address of a single Redis if it is neither host:port nor a URL: unix or tcp.',
  },
  redisUrl: {
    name: 'KVSTORE_URL',
    aliases: ['REDIS_URL'],
    kind: text,
    fallback: '/var/run/nutcracker/ratelimit.sock',
    help:
      'The address: host:port, a unix socket, redis(s)://…; sentinel: master,host:port,…; cluster: ' +
      'host:port,…',
    secret: true,
  },
  redisAuth: {
    name: 'KVSTORE_AUTH',
    aliases: ['REDIS_AUTH'],
    kind: text,
    fallback: '',
    help: 'The credentials for Redis: `password`, or `user:password`.',
    secret: true,
  },
  redisSentinelAuth: {
    name: 'KVSTORE_SENTINEL_AUTH',
    aliases: ['REDIS_SENTINEL_AUTH'],
    kind: text,
    fallback: '',
    help: 'The credentials for the sentinels: `password`, or `user:password`.',
    secret: true,
  },
  redisTls: {
    name: 'KVSTORE_TLS',
    aliases: ['REDIS_TLS'],
    kind: boolean,
    fallback: 'false',
    help: 'Connect to Redis with TLS.',
  },
  redisTimeoutMs: {
    name: 'KVSTORE_TIMEOUT',
    aliases: ['REDIS_TIMEOUT'],
    kind: durationAtLeast(10),
    fallback: '1s',
    help: 'The time after which a connection that is not established, or misses a reply, is closed.',
  },
  redisPipelineWindowMs: {
    name: 'KVSTORE_PIPELINE_WINDOW',
    aliases: ['REDIS_PIPELINE_WINDOW'],
    kind: durationMs,
    fallback: '0',
    help:
      'The time for which commands are collected before they are written. 0 means one turn of the ' +
      'event loop.',
  },
  redisPipelineLimit: {
    name: 'KVSTORE_PIPELINE_LIMIT',
    aliases: ['REDIS_PIPELINE_LIMIT'],
    kind: integer(0, 1_000_000),
    fallback: '0',
    help: pipelineLimitHelp,
  },
  redisTlsCertFile: {
    name: 'KVSTORE_TLS_CLIENT_CERT',
    aliases: ['REDIS_TLS_CLIENT_CERT'],
    kind: text,
    fallback: '',
    help: 'The file of the client certificate.',
  },
  redisTlsKeyFile: {
    name: 'KVSTORE_TLS_CLIENT_KEY',
    aliases: ['REDIS_TLS_CLIENT_KEY'],
    kind: text,
    fallback: '',
    help: 'The file of the private key of the client certificate.',
  },
  redisTlsCaFile: {
    name: 'KVSTORE_TLS_CACERT',
    aliases: ['REDIS_TLS_CACERT'],
    kind: text,
    fallback: '',
    help: 'The file of the certificate authorities of the servers.',
  },
  redisTlsSkipHostnameVerification: {
    name: 'KVSTORE_TLS_SKIP_HOSTNAME_VERIFICATION',
    aliases: ['REDIS_TLS_SKIP_HOSTNAME_VERIFICATION'],
    kind: boolean,
    fallback: 'false',
    help: 'Accept any name in the certificate of a server.',
  },
  redisPerSecond: {
    name: 'KVSTORE_PERSECOND',
    aliases: ['REDIS_PERSECOND'],
    kind: boolean,
    fallback: 'false',
    help: 'Count limits per second in a second Redis, and all others in the first one.',
  },
  redisPerSecondType: {
    name: 'KVSTORE_PERSECOND_TYPE',
    aliases: ['REDIS_PERSECOND_TYPE'],
    kind: redisType,
    fallback: 'single',
    help: 'The topology of the Redis servers for limits per second: single, sentinel or cluster.',
  },
  redisPerSecondSocketType: {
    name: 'KVSTORE_PERSECOND_SOCKET_TYPE',
    aliases: ['REDIS_PERSECOND_SOCKET_TYPE'],
    kind: oneOf('unix', 'tcp'),
    fallback: 'unix',
    help: 'KVSTORE_SOCKET_TYPE of the Redis for limits per second.',
  },
  redisPerSecondUrl: {
    name: 'KVSTORE_PERSECOND_URL',
    aliases: ['REDIS_PERSECOND_URL'],
    kind: text,
    fallback: '/var/run/nutcracker/ratelimitpersecond.sock',
    help: 'The address of the Redis for limits per second, in the form of KVSTORE_URL.',
    secret: true,
  },
  redisPerSecondAuth: {
    name: 'KVSTORE_PERSECOND_AUTH',
    aliases: ['REDIS_PERSECOND_AUTH'],
    kind: text,
    fallback: '',
    help: 'The credentials for Redis: `password`, or `user:password`.',
    secret: true,
  },
  redisPerSecondSentinelAuth: {
    name: 'KVSTORE_PERSECOND_SENTINEL_AUTH',
    aliases: ['REDIS_PERSECOND_SENTINEL_AUTH'],
    kind: text,
    fallback: '',
    help: 'The credentials for the sentinels: `password`, or `user:password`.',
    secret: true,
  },
  redisPerSecondTls: {
    name: 'KVSTORE_PERSECOND_TLS',
    aliases: ['REDIS_PERSECOND_TLS'],
    kind: boolean,
    fallback: 'false',
    help: 'Connect to the Redis for limits per second with TLS.',
  },
  redisPerSecondTimeoutMs: {
    name: 'KVSTORE_PERSECOND_TIMEOUT',
    aliases: ['REDIS_PERSECOND_TIMEOUT'],
    kind: durationAtLeast(10),
    fallback: '1s',
    help: 'The time after which a connection that is not established, or misses a reply, is closed.',
  },
  redisPerSecondPipelineWindowMs: {
    name: 'KVSTORE_PERSECOND_PIPELINE_WINDOW',
    aliases: ['REDIS_PERSECOND_PIPELINE_WINDOW'],
    kind: durationMs,
    fallback: '0',
    help:
      'The time for which commands are collected before they are written. 0 means one turn of the ' +
      'event loop.',
  },
  redisPerSecondPipelineLimit: {
    name: 'KVSTORE_PERSECOND_PIPELINE_LIMIT',
    aliases: ['REDIS_PERSECOND_PIPELINE_LIMIT'],
    kind: integer(0, 1_000_000),
    fallback: '0',
    help: pipelineLimitHelp,
  },
  redisHealthCheckActiveConnection: {
    name: 'KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION',
    aliases: ['REDIS_HEALTH_CHECK_ACTIVE_CONNECTION'],
    kind: boolean,
    fallback: 'false',
    help: 'Be unhealthy whenever Redis does not answer. false: be unhealthy only until its first answer.',
  },
})

/** Settings of envoyproxy/ratelimit without effect, accepted so that a Deployment needs no change. */
export const redisCompatibilitySettings = settingsTable({
  redisPoolSize: {
    name: 'KVSTORE_POOL_SIZE',
    aliases: ['REDIS_POOL_SIZE'],
    kind: integer(1, 100_000),
    fallback: '10',
    help: 'The size of the pool of connections.',
    noEffect: 'one connection to each master carries all calls',
  },
  redisPoolOnEmptyBehavior: {
    name: 'KVSTORE_POOL_ON_EMPTY_BEHAVIOR',
    aliases: ['REDIS_POOL_ON_EMPTY_BEHAVIOR'],
    kind: oneOf('WAIT'),
    fallback: 'WAIT',
    help: 'The behaviour of a call without a free connection.',
    noEffect: 'calls share their connections, and the reference rejects other values too',
  },
  redisClusterPipelineParallelism: {
    name: 'KVSTORE_CLUSTER_PIPELINE_PARALLELISM',
    aliases: ['REDIS_CLUSTER_PIPELINE_PARALLELISM'],
    kind: integer(0, 100_000),
    fallback: '1',
    help: 'The number of parts of a call that run at once.',
    noEffect: 'the parts of a call go to all their masters at once',
  },
  redisPerSecondPoolSize: {
    name: 'KVSTORE_PERSECOND_POOL_SIZE',
    aliases: ['REDIS_PERSECOND_POOL_SIZE'],
    kind: integer(1, 100_000),
    fallback: '10',
    help: 'The size of the pool of connections.',
    noEffect: 'one connection to each master carries all calls',
  },
  redisPerSecondPoolOnEmptyBehavior: {
    name: 'KVSTORE_PERSECOND_POOL_ON_EMPTY_BEHAVIOR',
    aliases: ['REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR'],
    kind: oneOf('WAIT'),
    fallback: 'WAIT',
    help: 'The behaviour of a call without a free connection.',
    noEffect: 'calls share their connections, and the reference rejects other values too',
  },
  redisPerSecondClusterPipelineParallelism: {
    name: 'KVSTORE_PERSECOND_CLUSTER_PIPELINE_PARALLELISM',
    aliases: ['REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM'],
    kind: integer(0, 100_000),
    fallback: '1',
    help: 'The number of parts of a call that run at once.',
    noEffect: 'the parts of a call go to all their masters at once',
  },
  redisStartupInitialMs: {
    name: 'KVSTORE_STARTUP_INITIAL_INTERVAL',
    aliases: ['REDIS_STARTUP_INITIAL_INTERVAL'],
    kind: durationMs,
    fallback: '1s',
    help: 'The first delay between attempts to connect to Redis at the start.',
    noEffect: 'the service retries after 50 ms to 1 s',
  },
  redisStartupMaxMs: {
    name: 'KVSTORE_STARTUP_MAX_INTERVAL',
    aliases: ['REDIS_STARTUP_MAX_INTERVAL'],
    kind: durationMs,
    fallback: '30s',
    help: 'The longest delay between attempts to connect to Redis at the start.',
    noEffect: 'the service retries after 50 ms to 1 s',
  },
  redisStartupMaxElapsedMs: {
    name: 'KVSTORE_STARTUP_MAX_ELAPSED_TIME',
    aliases: ['REDIS_STARTUP_MAX_ELAPSED_TIME'],
    kind: durationMs,
    fallback: '0',
    help: 'The time after which attempts to connect to Redis at the start end.',
    noEffect: 'the service retries forever, and accepts no calls until then',
  },
})
