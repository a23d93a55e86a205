import type { HostPort } from '../redis-address.ts'
import type { RedisSetup } from '../redis-setup.ts'
import { ask, askOnce } from '../resp/ask.ts'
import type { ClusterNode } from './cluster-node.ts'
import { type ClusterSlots, readClusterSlots } from './cluster-slots.ts'
import { slotCount } from './hash-slot.ts'

export interface FindSlotsOptions extends Pick<RedisSetup, 'session' | 'random'> {
  /** The nodes with a healthy connection, which are asked first. */
  readonly serving: readonly ClusterNode[]
  readonly seeds: readonly HostPort[]
  /** No further node is asked once this is true. */
  readonly isClosed: () => boolean
  /** Called with the reason each time a node does not report its slots. */
  readonly onProblem: (problem: string) => void
}

/**
 * Asks one node after the other. Returns the reply of the first that knows all slots; otherwise the reply
 * that covers the most slots.
 */
export async function findSlots(options: FindSlotsOptions): Promise<ClusterSlots | undefined> {
  const { session, serving, seeds, random, isClosed, onProblem } = options
  const sources = [
    ...shuffled(serving, random).map(({ place, connection }) => ({
      place,
      fetch: () => ask(connection, 'CLUSTER', 'SLOTS'),
    })),
    ...shuffled(seeds, random).map(place => ({
      place,
      fetch: () => askOnce({ ...session, endpoint: place }, 'CLUSTER', 'SLOTS'),
    })),
  ]
  let best: ClusterSlots | undefined
  for (const { place, fetch } of sources) {
    if (isClosed() || best?.covered === slotCount) break
    const slots = readClusterSlots(await fetch(), place.host)
    if ('problem' in slots) onProblem(slots.problem)
    else if (best === undefined || slots.covered > best.covered) best = slots
  }
  return best
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const keyed = items.map(item => ({ item, key: random() }))
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item)
}
