import { boolean, durationMs, integer, settingsTable, text } from '@tollway/chassis/settings.ts'

/** The settings of memcached. */
export const memcachedSettings = settingsTable({
  memcachedHostPort: {
    name: 'MEMSTORE_HOST_PORT',
    aliases: ['MEMCACHE_HOST_PORT'],
    kind: text,
    fallback: '',
    help: 'The memcached servers as host:port,host:port. All processes need the same list in the same order.',
  },
  memcachedSrv: {
    name: 'MEMSTORE_SRV',
    aliases: ['MEMCACHE_SRV'],
    kind: text,
    fallback: '',
    help: 'The SRV record of the memcached servers, instead of MEMSTORE_HOST_PORT: _service._proto.name.',
  },
  memcachedSrvRefreshMs: {
    name: 'MEMSTORE_SRV_REFRESH',
    aliases: ['MEMCACHE_SRV_REFRESH'],
    kind: durationMs,
    fallback: '0',
    help: 'The interval of lookups of MEMSTORE_SRV. 0 means no lookup after the first successful one.',
  },
  memcachedMaxIdleConnections: {
    name: 'MEMSTORE_MAX_IDLE_CONNS',
    aliases: ['MEMCACHE_MAX_IDLE_CONNS'],
    kind: integer(0, 1_000),
    fallback: '2',
    help: 'The number of idle connections to each server.',
    noEffect: 'one connection to each server carries all calls',
  },
  memcachedTls: {
    name: 'MEMSTORE_TLS',
    aliases: ['MEMCACHE_TLS'],
    kind: boolean,
    fallback: 'false',
    help: 'Connect to memcached with TLS.',
  },
  memcachedTlsCertFile: {
    name: 'MEMSTORE_TLS_CLIENT_CERT',
    aliases: ['MEMCACHE_TLS_CLIENT_CERT'],
    kind: text,
    fallback: '',
    help: 'The file of the client certificate.',
  },
  memcachedTlsKeyFile: {
    name: 'MEMSTORE_TLS_CLIENT_KEY',
    aliases: ['MEMCACHE_TLS_CLIENT_KEY'],
    kind: text,
    fallback: '',
    help: 'The file of the private key of the client certificate.',
  },
  memcachedTlsCaFile: {
    name: 'MEMSTORE_TLS_CACERT',
    aliases: ['MEMCACHE_TLS_CACERT'],
    kind: text,
    fallback: '',
    help: 'The file of the certificate authorities of the servers.',
  },
  memcachedTlsSkipHostnameVerification: {
    name: 'MEMSTORE_TLS_SKIP_HOSTNAME_VERIFICATION',
    aliases: ['MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION'],
    kind: boolean,
    fallback: 'false',
    help: 'Accept any name in the certificate of a server.',
  },
  memcachedAsyncIncrement: {
    name: 'MEMSTORE_ASYNC_INCREMENT',
    aliases: ['MEMCACHE_ASYNC_INCREMENT'],
    kind: boolean,
    fallback: 'false',
    help: 'Count after the answer, as the reference does. Concurrent calls can then exceed a limit.',
  },
})
