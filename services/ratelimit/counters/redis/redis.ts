import { formatEndpoint } from '../connections/connect-socket.ts'
import { withHealth } from '../with-health.ts'
import { createClusterCounters } from './cluster/redis-cluster.ts'
import { parseLogin, parseRedisAddress, type RedisAddress } from './redis-address.ts'
import { createRedisNode } from './redis-node.ts'
import { createSentinelCounters } from './redis-sentinel.ts'
import {
  createRedisSetup,
  findScriptObstacle,
  type RedisCounters,
  type RedisCountersOptions,
  type RedisSetup,
} from './redis-setup.ts'
import { RespConnection } from './resp/connection.ts'

/**
 * Counters in Redis. Each hit is an `INCRBY`; this process's first touch of a key also writes an `EXPIRE`,
 * see `createIncrementSender`. One connection to each master carries all calls: those of one turn of the
 * event loop share one write, or a few (`hitsPerWrite`). A second connection would only make the writes
 * smaller.
 *
 * Connects at once, and reconnects with delays that grow to half a second. While no connection has answered a
 * PING, `add` rejects immediately with the reason; no hit is kept for later, and none is sent twice.
 *
 * @throws Error when the address cannot be parsed.
 */
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const { type = 'single', url, socketType = 'tcp', auth = '', sentinelAuth = '' } = options
  const address = parseRedisAddress({ type, url, socketType, auth })
  const setup = createRedisSetup(options, address)
  if (address.type === 'cluster') return createClusterCounters(setup, address.seeds)
  if (address.type === 'single') return createSingleCounters(setup, address)
  return createSentinelCounters(setup, address, parseLogin(sentinelAuth))
}

function createSingleCounters(
  setup: RedisSetup,
  { endpoint }: RedisAddress & { readonly type: 'single' },
): RedisCounters {
  const { session, pool, newBackoff, newBreaker, limits, stopWhenOver } = setup
  const connection = new RespConnection({
    ...session,
    endpoint,
    backoff: newBackoff(),
    breaker: newBreaker(`Redis ${formatEndpoint(endpoint)}`),
    stats: pool,
  })
  setup.inspect(connection)
  const node = createRedisNode({ connection, limits })
  const { admit } = node
  const add = stopWhenOver ? node.addUnlessOver : node.add
  const onHealth: RedisCounters['onHealth'] = listener => connection.onHealth(listener)
  const findObstacle = (keyPrefix: string) => findScriptObstacle(admit, keyPrefix)
  return withHealth(
    {
      add,
      admit,
      findObstacle,
      onHealth,
      close: node.close,
      pool,
    },
    {
      healthy: () => connection.healthy,
      problem: () => (connection.healthy ? '' : connection.problem),
    },
  )
}
