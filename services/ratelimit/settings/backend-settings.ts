import {
  boolean,
  decimal,
  durationAtLeast,
  integer,
  oneOf,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'

/** Where counters are kept, and what holds when they cannot be asked. */
export const backendSettings = settingsTable({
  backendType: {
    name: 'BACKEND_TYPE',
    kind: oneOf('redis', 'memcache', 'memory'),
    fallback: 'redis',
    help: 'Where counters are kept. `memory` counts in this process alone.',
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
    help: 'What a call gets that could not be counted: an error, OK, OVER_LIMIT, or a count of its own.',
  },
  backendFailureLocalShare: {
    name: 'BACKEND_FAILURE_LOCAL_SHARE',
    kind: decimal(0.001, 1),
    fallback: '1',
    help: 'What of each limit this process may let through in the mode `local`: 1 divided by the processes.',
  },
  backendBusyPoll: {
    name: 'BACKEND_BUSY_POLL',
    kind: oneOf('auto', 'off'),
    fallback: 'auto',
    help: 'Whether to stay awake for up to 0.1 ms while the backend answers a lonely call: `auto` or `off`.',
  },
  localCacheBytes: {
    name: 'LocalCacheSizeInBytes',
    aliases: ['LOCAL_CACHE_SIZE_IN_BYTES'],
    kind: integer(0, 2 ** 31),
    fallback: '0',
    help: 'Room for keys over their limit, about which the backend is not asked again; 0 for none.',
  },
  stopIncrementWhenOverLimit: {
    name: 'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    kind: boolean,
    fallback: 'false',
    help: 'Count nothing of a call of which one descriptor is over its limit, except that one.',
  },
  cacheKeyPrefix: {
    name: 'CACHE_KEY_PREFIX',
    kind: text,
    fallback: '',
    help: 'Stands before every key in the backend.',
  },
  expirationJitterMaxSeconds: {
    name: 'EXPIRATION_JITTER_MAX_SECONDS',
    kind: integer(0, 86_400),
    fallback: '300',
    help: 'Counters live up to this much longer than their window, so that they do not all end at once.',
  },
})
