import { type BackendProxy, startBackendProxy } from '../support/backend-proxy.ts'
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts'
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts'
import { type RedisSentinels, startRedisSentinels } from '../support/redis-sentinels.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'

/** A backend of the service, to which faults are applied. */
export interface Backend {
  /** The settings of the service for this backend. */
  readonly settings: Readonly<Record<string, string>>
  /** Returns the counter's value; 0 when there is none. */
  count(key: string): Promise<number>
  stop(): Promise<void>
}

/** The seed determines the random behaviour of the proxy. */
export type OpenBackend<B extends Backend> = (seed: number) => Promise<B>

export interface ProxiedRedis extends Backend {
  readonly server: RedisServer
  readonly proxy: BackendProxy
}

export async function openRedis(seed: number): Promise<ProxiedRedis> {
  const server = await startRedis()
  const proxy = await startBackendProxy({ targetPort: server.port, seed })
  return { server, proxy, ...behind(proxy, redisBackend(server, proxy.address)) }
}

/** Stops the proxy and then the backend. */
function behind(proxy: BackendProxy, backend: Backend): Backend {
  return {
    ...backend,
    async stop() {
      await proxy.stop()
      await backend.stop()
    },
  }
}

/** @param address at which the service connects: `host:port` */
export function redisBackend(server: RedisServer, address: string): Backend {
  return {
    settings: { KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: address },
    count: async key => Number(await server.command('GET', key)),
    stop: server.stop,
  }
}

export interface SentinelBackend extends Backend {
  readonly set: RedisSentinels
  /** Returns the running server whose role is master. */
  findMaster(): Promise<RedisServer | undefined>
}

export async function openSentinels(): Promise<SentinelBackend> {
  const set = await startRedisSentinels()
  const servers = [...set.replicas, set.master]
  async function findMaster(): Promise<RedisServer | undefined> {
    for (const server of servers) {
      const role = await server.command('ROLE').catch(() => '')
      if (role.startsWith('master')) return server
    }
    return undefined
  }
  return {
    set,
    findMaster,
    settings: { KVSTORE_TYPE: 'sentinel', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: set.url },
    count: async key => Number(await (await findMaster())?.command('GET', key)),
    stop: set.stop,
  }
}

export interface ClusterBackend extends Backend {
  readonly cluster: RedisCluster
}

export async function openCluster(): Promise<ClusterBackend> {
  const cluster = await startRedisCluster({ replicasPerMaster: 1 })
  await cluster.failQuickly()
  return {
    cluster,
    settings: { KVSTORE_TYPE: 'cluster', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: cluster.url },
    /** Only the owner of the key answers; a replica or another master redirects, which is an error. */
    async count(key) {
      for (const server of [...cluster.replicas, ...cluster.masters]) {
        const value = await server.command('GET', key).catch(() => undefined)
        if (value !== undefined) return Number(value)
      }
      throw new Error(`no node of the cluster has the slot of ${key}`)
    },
    stop: cluster.stop,
  }
}

export interface ProxiedMemcached extends Backend {
  readonly server: MemcachedServer
  readonly proxy: BackendProxy
}

export async function openMemcached(seed: number): Promise<ProxiedMemcached> {
  const server = await startMemcached()
  const proxy = await startBackendProxy({ targetPort: server.port, seed, protocol: 'memcached' })
  return { server, proxy, ...behind(proxy, memcachedBackend(server, proxy.address)) }
}

/** @param address at which the service connects: `host:port` */
export function memcachedBackend(server: MemcachedServer, address: string): Backend {
  return {
    settings: { BACKEND_TYPE: 'memcache', MEMSTORE_HOST_PORT: address },
    async count(key) {
      const [, value = '0'] = await server.command(`get ${key}`)
      return Number(value)
    },
    stop: server.stop,
  }
}
