import {
  boolean,
  decimal,
  durationAtLeast,
  integer,
  oneOf,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'

export const backendSettings = settingsTable({
  backendType: {
    name: 'BACKEND_TYPE',
    kind: oneOf('redis', 'memcache', 'memory'),
    fallback: 'redis',
    help: 'The backend of the counters. `memory` counts in this process only.',
  },
  backendDeadlineMs: {
    name: 'BACKEND_DEADLINE',
    kind: durationAtLeast(1),
    fallback: '100ms',
    help:
      "The time after which a call without an answer of the backend fails. Set it below the proxy's " +
      'timeout.',
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
    help:
      'The share of each limit that this process allows in the mode `local`: 1 divided by the number ' +
      'of processes.',
  },
  backendBusyPoll: {
    name: 'BACKEND_BUSY_POLL',
    kind: oneOf('auto', 'off'),
    fallback: 'auto',
    help:
      'Whether the process polls for replies of the backend, up to 0.1 ms, while few calls are ' +
      'concurrent.',
  },
  localCacheBytes: {
    name: 'LocalCacheSizeInBytes',
    aliases: ['LOCAL_CACHE_SIZE_IN_BYTES'],
    kind: integer(0, 2 ** 31),
    fallback: '0',
    help:
      'The size of the local cache of keys over their limit, which saves calls of the backend. 0 ' +
      'disables it.',
  },
  stopIncrementWhenOverLimit: {
    name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    kind: boolean,
    fallback: 'false',
    help:
      'If a descriptor of a call is over its limit, count only the descriptors that are over their ' +
      'limits.',
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
    help: 'The maximum random time in seconds that is added to the expiry of a counter, to spread expiries.',
  },
})
