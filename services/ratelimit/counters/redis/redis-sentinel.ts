import { withHealth } from '../with-health.ts'
import type { RedisAddress, RedisLogin } from './redis-address.ts'
import { createRedisNode } from './redis-node.ts'
import { findScriptObstacle, type RedisCounters, type RedisSetup } from './redis-setup.ts'
import { RespConnection } from './resp/connection.ts'
import { watchSentinels } from './sentinel-watch.ts'

/**
 * Counters in the Redis that the sentinels report as the master, provided that its reply to ROLE confirms it.
 * The sentinels are asked again at once when the connection to the master is lost or when it replies
 * READONLY, as a replica does.
 */
export function createSentinelCounters(
  setup: RedisSetup,
  { master, sentinels }: RedisAddress & { readonly type: 'sentinel' },
  sentinelLogin: RedisLogin,
): RedisCounters {
  const { session, pool, newBackoff, newBreaker, limits, stopWhenOver, random } = setup
  const connection = new RespConnection({
    ...session,
    masterOnly: true,
    backoff: newBackoff(),
    breaker: newBreaker(`Redis ${master}`),
    stats: pool,
  })
  setup.inspect(connection)
  const watch = watchSentinels({
    master,
    sentinels,
    session: { ...sentinelLogin, ...setup.transport },
    newBackoff,
    onMaster: endpoint => connection.moveTo(endpoint),
    isServing: () => connection.healthy,
    random,
  })
  connection.onHealth(healthy => {
    if (!healthy) watch.refreshSoon()
  })
  const problem = () => (connection.endpoint === undefined ? watch.problem : connection.problem)
  const node = createRedisNode({
    connection,
    limits,
    problem,
    onErrorReply(text) {
      if (text.startsWith('READONLY')) connection.renew(text)
    },
  })
  const { admit } = node
  const add = stopWhenOver ? node.addUnlessOver : node.add
  const onHealth: RedisCounters['onHealth'] = listener => connection.onHealth(listener)
  const findObstacle = (keyPrefix: string) => findScriptObstacle(admit, keyPrefix)
  const close = async () => {
    await Promise.all([node.close(), watch.close()])
  }
  return withHealth(
    { add, admit, findObstacle, onHealth, close, pool },
    {
      healthy: () => connection.healthy,
      problem: () => (connection.healthy ? '' : problem()),
    },
  )
}
