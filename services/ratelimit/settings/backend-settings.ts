import {
  boolean,
  decimal,
  durationAtLeast,
  integer,
  oneOf,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'

/** Where counters are kept, and the behaviour when the backend fails. */
export const backendSettings = settingsTable({
  backendType: {
    name: 'BACKEND_TYPE',
    kind: oneOf('redis', 'memcache', 'memory'),
    fallback: 'redis',
    help: 'Where counters are kept. `memory` counts in this process only.',
  },
  backendDeadlineMs: {
    name: 'BACKEND_DEADLINE',
    kind: durationAtLeast(1),
    fallback: '100ms',
    help: "A call whose counters did not answer within this is an error. Set it below the proxy's timeout.",
  },
  backendFailureMode: {
    name: 'BACKEND_FAILURE_MODE',
    kind: oneOf('error', 'allow', 'deny', 'local'),
    fallback: 'error',
    help: 'The answer when the backend fails: an error, OK, OVER_LIMIT, or a decision by local counts.',
  },
  backendFailureLocalShare: {
    name: 'BACKEND_FAILURE_LOCAL_SHARE',
    kind: decimal(0.001, 1),
    fallback: '1',
    help: 'The share of each limit that this process admits in the mode `local`: 1 divided by the processes.',
  },
  backendBusyPoll: {
    name: 'BACKEND_BUSY_POLL',
    kind: oneOf('auto', 'off'),
    fallback: 'auto',
    help: 'Whether to poll up to 0.1 ms for the reply to a few concurrent calls: `auto` or `off`.',
  },
  localCacheBytes: {
    name: 'LocalCacheSizeInBytes',
    aliases: ['LOCAL_CACHE_SIZE_IN_BYTES'],
    kind: integer(0, 2 ** 31),
    fallback: '0',
    help: 'The size of the cache of keys over their limit, which spares the backend; 0 for none.',
  },
  stopIncrementWhenOverLimit: {
    name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    kind: boolean,
    fallback: 'false',
    help: 'When one descriptor of a call is over its limit, count only the descriptors that are over.',
  },
  cacheKeyPrefix: {
    name: 'CACHE_KEY_PREFIX',
    kind: text,
    fallback: '',
    help: 'The prefix of every key in the backend.',
  },
  expirationJitterMaxSeconds: {
    name: 'EXPIRATION_JITTER_MAX_SECONDS',
    kind: integer(0, 86_400),
    fallback: '300',
    help: 'The most seconds that are added to the expiry of a counter, so that expiries are spread.',
  },
})
