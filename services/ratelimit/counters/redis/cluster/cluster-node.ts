import type { NodeAddress } from '../redis-address.ts'
import { createRedisNode, type Follow, type RedisNode } from '../redis-node.ts'
import type { RedisSetup } from '../redis-setup.ts'
import { RespConnection } from '../resp/connection.ts'
import { findHashSlot } from './hash-slot.ts'

/** A master of the cluster, with a connection of its own. */
export interface RedisClusterNode extends RedisNode {
  readonly address: NodeAddress
  /** When a reply last named this node as the owner of a slot, in monotonic milliseconds. */
  namedMs: number
  /**
   * Runs `then` when the connection is healthy, or after a call's deadline at the latest: by then a waiting
   * call has been rejected.
   */
  whenServing(then: () => void): void
}

interface ClusterNodeOptions {
  readonly address: NodeAddress
  readonly follow: Follow
  /**
   * Called when the node has lost its connection or reports that the cluster is down: the slots may have
   * moved.
   */
  readonly onLost: () => void
  /** Called after each change of the connection's health. */
  readonly onHealth: () => void
}

export function openClusterNode(
  { session, pool, newBackoff, newBreaker, limits, inspect }: RedisSetup,
  { address, follow, onLost, onHealth }: ClusterNodeOptions,
): RedisClusterNode {
  const connection = new RespConnection({
    ...session,
    endpoint: address,
    backoff: newBackoff(),
    breaker: newBreaker(`Redis ${address.host}:${address.port}`),
    stats: pool,
  })
  inspect(connection)
  const onErrorReply = (text: string) => {
    if (text.startsWith('CLUSTERDOWN')) onLost()
  }
  /** Commands that wait for the connection to become healthy. */
  const waiting = new Set<() => void>()

  function whenServing(then: () => void): void {
    if (connection.healthy) {
      then()
      return
    }
    const go = () => {
      clearTimeout(timer)
      waiting.delete(go)
      then()
    }
    const timer = setTimeout(go, limits.deadlineMs)
    waiting.add(go)
  }

  connection.onHealth(serving => {
    if (serving) for (const go of waiting) go()
    else onLost()
    onHealth()
  })
  const node = createRedisNode({ connection, limits, onErrorReply, findSlot: findHashSlot, follow })
  return { ...node, address, whenServing, namedMs: 0 }
}

export function describeProblem({ address, connection }: RedisClusterNode): string {
  return `${address.host}:${address.port}: ${connection.problem}`
}
