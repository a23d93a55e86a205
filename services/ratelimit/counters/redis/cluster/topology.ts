import { RefreshSchedule } from '../../connections/refresh-schedule.ts'
import { closedText } from '../../counters.ts'
import type { NodeAddress } from '../redis-address.ts'
import type { RedisSetup } from '../redis-setup.ts'
import { sendCommand, sendCommandOnce } from '../resp/session.ts'
import { RedisClusterNode } from './cluster-node.ts'
import { slotCount } from './hash-slot.ts'
import { createRedirects } from './redirects.ts'
import { type ClusterSlots, type Redirect, readClusterSlots, SlotOwners } from './slot-owners.ts'

/** The first and the longest delay between refreshes while a slot has no master that answers. */
const urgentMs = 100
const maxUrgentMs = 500
/** A node that owns no slot is closed this long after a reply last named it. */
const unusedNodeMs = 1_000

/**
 * The masters of a cluster and the slots of each. Healthy while each slot has a master that answers. The
 * slots are refreshed every few seconds, more often while it is unhealthy, and soon after a redirect.
 */
export class Topology {
  readonly #setup: RedisSetup
  readonly #seeds: readonly NodeAddress[]
  readonly #schedule: RefreshSchedule
  readonly #nodes = new Map<string, RedisClusterNode>()
  readonly #owners = new SlotOwners<RedisClusterNode>(() => this.#checkHealth())
  readonly #followFrom = createRedirects(redirect => this.#learn(redirect))
  readonly #listeners: ((healthy: boolean) => void)[] = []
  #slotsProblem = 'no node has answered yet'
  healthy = false
  closed = false

  constructor(setup: RedisSetup, seeds: readonly NodeAddress[]) {
    this.#setup = setup
    this.#seeds = seeds
    this.#schedule = new RefreshSchedule({
      refresh: () => this.#refresh(),
      isSettled: () => this.healthy,
      everyMs: setup.clusterRefreshMs,
      urgentMs,
      maxUrgentMs,
      random: setup.random,
      clock: setup.limits.clock,
    })
  }

  findOwner(slot: number): RedisClusterNode | undefined {
    return this.#owners.of(slot)
  }

  /** Returns why the cluster is not healthy; empty while it is. */
  problem(): string {
    if (this.closed) return closedText
    const { masters, missing } = this.#owners
    if (masters.size === 0) return `no node of the cluster has reported the slots: ${this.#slotsProblem}`
    if (missing > 0) return `${missing} slots of the cluster have no master`
    const away = [...masters].find(({ connection }) => !connection.healthy)
    return away?.problem() ?? ''
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener)
  }

  async close(): Promise<void> {
    this.closed = true
    this.#schedule.close()
    await Promise.all([...this.#nodes.values()].map(node => node.close()))
    this.#checkHealth()
  }

  #nodeAt({ host, port }: NodeAddress): RedisClusterNode {
    const name = `${host} ${port}`
    const node = this.#nodes.get(name) ?? this.#open({ host, port })
    node.namedMs = this.#setup.limits.clock.monotonicMs()
    this.#nodes.set(name, node)
    return node
  }

  #open(address: NodeAddress): RedisClusterNode {
    return new RedisClusterNode(this.#setup, {
      address,
      follow: this.#followFrom(address),
      onLost: () => this.#schedule.refreshSoon(),
      onHealth: () => this.#checkHealth(),
    })
  }

  async #refresh(): Promise<void> {
    const slots = await this.#findSlots()
    if (this.closed || slots === undefined) return
    this.#owners.replace(slots.ranges.map(range => ({ ...range, master: this.#nodeAt(range.master) })))
    this.#closeOthers()
  }

  /**
   * Asks one node after the other, the connected ones first. Returns the reply of the first that knows all
   * slots; otherwise the reply that covers the most slots.
   */
  async #findSlots(): Promise<ClusterSlots | undefined> {
    const { session, random } = this.#setup
    const serving = [...this.#nodes.values()].filter(({ connection }) => connection.healthy)
    const sources = [
      ...shuffle(serving, random).map(({ address, connection }) => ({
        address,
        fetch: () => sendCommand(connection, 'CLUSTER', 'SLOTS'),
      })),
      ...shuffle(this.#seeds, random).map(address => ({
        address,
        fetch: () => sendCommandOnce({ ...session, endpoint: address }, 'CLUSTER', 'SLOTS'),
      })),
    ]
    let best: ClusterSlots | undefined
    for (const { address, fetch } of sources) {
      if (this.closed || best?.covered === slotCount) break
      const slots = readClusterSlots(await fetch(), address.host)
      if ('problem' in slots) this.#slotsProblem = slots.problem
      else if (best === undefined || slots.covered > best.covered) best = slots
    }
    return best
  }

  #closeOthers(): void {
    const nowMs = this.#setup.limits.clock.monotonicMs()
    for (const [name, node] of this.#nodes) {
      if (this.#owners.masters.has(node) || nowMs - node.namedMs < unusedNodeMs) continue
      this.#nodes.delete(name)
      void node.close()
    }
  }

  #learn(redirect: Redirect): RedisClusterNode {
    const node = this.#nodeAt(redirect)
    if (!redirect.asking && this.#owners.of(redirect.slot) !== node) {
      this.#owners.set(redirect.slot, node)
      this.#schedule.refreshSoon()
    }
    return node
  }

  #checkHealth(): void {
    const next = this.problem() === ''
    if (next === this.healthy) return
    this.healthy = next
    for (const listener of this.#listeners) listener(next)
  }
}

function shuffle<T>(items: readonly T[], random: () => number): T[] {
  const keyed = items.map(item => ({ item, key: random() }))
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item)
}
