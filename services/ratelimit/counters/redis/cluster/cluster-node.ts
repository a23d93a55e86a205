import type { NodeAddress } from '../redis-address.ts'
import { type Follow, RedisNode } from '../redis-node.ts'
import type { RedisSetup } from '../redis-setup.ts'
import { findHashSlot } from './hash-slot.ts'

interface ClusterNodeOptions {
  readonly address: NodeAddress
  readonly follow: Follow
  /** Called when the connection is lost or the cluster is reported down: the slots may have moved. */
  readonly onLost: () => void
  readonly onHealth: () => void
}

export class RedisClusterNode extends RedisNode {
  readonly address: NodeAddress
  /** When a reply last named this node as the owner of a slot, in monotonic milliseconds. */
  namedMs = 0
  readonly #deadlineMs: number
  /** Commands that wait for the connection to become healthy. */
  readonly #waiting = new Set<() => void>()

  constructor({ openConnection, limits }: RedisSetup, options: ClusterNodeOptions) {
    const { address, follow, onLost, onHealth } = options
    const name = `${address.host}:${address.port}`
    const connection = openConnection(name, { endpoint: address })
    super(connection, limits, {
      onErrorReply(text) {
        if (text.startsWith('CLUSTERDOWN')) onLost()
      },
      problem: () => `${name}: ${connection.problem}`,
      findSlot: findHashSlot,
      follow,
    })
    this.address = address
    this.#deadlineMs = limits.deadlineMs
    connection.onHealth(healthy => {
      if (healthy) for (const go of this.#waiting) go()
      else onLost()
      onHealth()
    })
  }

  /**
   * Runs `then` when the connection is healthy; at the latest at the deadline, when the waiting call has
   * already been rejected.
   */
  whenServing(then: () => void): void {
    if (this.connection.healthy) {
      then()
      return
    }
    const go = () => {
      clearTimeout(timer)
      this.#waiting.delete(go)
      then()
    }
    const timer = setTimeout(go, this.#deadlineMs)
    this.#waiting.add(go)
  }
}
