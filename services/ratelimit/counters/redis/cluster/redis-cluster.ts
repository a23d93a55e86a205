import type { LimitCheck, LimitOutcome } from '../../admission/limit-check.ts'
import { addInTwoSteps, addSplit } from '../../batching/split-batch.ts'
import { CountersError, type Hit } from '../../counters.ts'
import { withHealth } from '../../with-health.ts'
import type { NodeAddress } from '../redis-address.ts'
import { findScriptObstacle, type RedisCounters, type RedisSetup } from '../redis-setup.ts'
import { describeProblem, type RedisClusterNode } from './cluster-node.ts'
import { findHashSlot } from './hash-slot.ts'
import { closedText, Topology } from './topology.ts'

/**
 * Counters in a Redis Cluster. Each master has one connection with its own writes; a batch is divided among
 * the masters that own the slots of its keys. Healthy while each slot has a master that answers.
 *
 * A command that was answered with MOVED or ASK had no effect, so it is sent again, to the node that the
 * reply names. After MOVED the slots are refreshed.
 */
export function createClusterCounters(setup: RedisSetup, seeds: readonly NodeAddress[]): RedisCounters {
  const { pool, stopWhenOver } = setup
  const topology = new Topology(setup, seeds)

  /** Rejects the whole batch and adds nothing when the owner of any of its keys is away. */
  function addToOwners(batch: readonly Hit[]): Promise<readonly number[]> {
    const targets: RedisClusterNode[] = []
    for (const { key } of batch) {
      const owner = topology.findOwner(findHashSlot(key))
      if (owner === undefined) return Promise.reject(new CountersError(topology.problem()))
      if (!owner.connection.usable) return Promise.reject(new CountersError(describeProblem(owner)))
      targets.push(owner)
    }
    const [first] = targets
    if (first === undefined) return Promise.resolve([])
    if (targets.every(target => target === first)) return first.add(batch)
    return addSplit(
      batch,
      (_, position) => targets[position] ?? first,
      (node, part) => node.add(part),
    )
  }

  function addUnlessOver(batch: readonly Hit[]): Promise<readonly number[]> {
    const [slot, ...others] = new Set(batch.map(({ key }) => findHashSlot(key)))
    const owner = topology.findOwner(slot ?? 0)
    if (owner === undefined || others.length > 0) return addInTwoSteps(addToOwners, batch)
    return owner.addUnlessOver(batch)
  }

  function add(batch: readonly Hit[]): Promise<readonly number[]> {
    if (topology.closed) return Promise.reject(new CountersError(closedText))
    return stopWhenOver ? addUnlessOver(batch) : addToOwners(batch)
  }

  /**
   * Requires all keys of a call to be in one slot; the keys of a call with several limits share a hash tag.
   */
  async function admit(checks: readonly LimitCheck[]): Promise<readonly LimitOutcome[]> {
    if (topology.closed) throw new CountersError(closedText)
    const [slot, ...others] = new Set(checks.map(({ key }) => findHashSlot(key)))
    if (slot === undefined) return []
    if (others.length > 0) throw new CountersError('the limits of a call are in several slots of the cluster')
    const owner = topology.findOwner(slot)
    if (owner === undefined) throw new CountersError(topology.problem())
    if (!owner.connection.usable) throw new CountersError(describeProblem(owner))
    return await owner.admit(checks)
  }

  const findObstacle = (keyPrefix: string) => findScriptObstacle(admit, keyPrefix)
  const onHealth = (listener: (healthy: boolean) => void) => topology.onHealth(listener)
  const close = () => topology.close()
  return withHealth(
    { add, admit, findObstacle, onHealth, close, pool },
    { healthy: () => topology.healthy, problem: () => topology.problem() },
  )
}
