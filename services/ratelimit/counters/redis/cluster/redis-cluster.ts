import type { LimitCheck, LimitOutcome } from '../../admission/limit-check.ts'
import { addInTwoSteps, addSplit } from '../../batching/split-batch.ts'
import { type Channel, type ChannelListener, CountersError, closedText, type Hit } from '../../counters.ts'
import { Channels } from '../channels.ts'
import type { NodeAddress } from '../redis-address.ts'
import { RedisBucketShares } from '../redis-bucket-shares.ts'
import { RedisReservations } from '../redis-reservations.ts'
import { findScriptObstacle, type RedisCounters, type RedisSetup } from '../redis-setup.ts'
import type { RedisClusterNode } from './cluster-node.ts'
import { findHashSlot } from './hash-slot.ts'
import { Topology } from './topology.ts'

/**
 * Counters in a Redis Cluster. Each master has one connection with its own writes; a batch is divided among
 * the masters that own the slots of its keys. Healthy while each slot has a master that answers.
 *
 * A command that was answered with MOVED or ASK had no effect, so it is sent again, to the node that the
 * reply names. After MOVED the slots are refreshed.
 */
export class RedisClusterCounters implements RedisCounters {
  readonly reservations = new RedisReservations({
    run: async run => await this.#findOwner(run.ledgerKey).runReservation(run),
    runIndex: async run => await this.#findOwner(run.index).runLedgerIndex(run),
  })
  readonly #topology: Topology
  readonly #stopWhenOver: boolean
  readonly #channels: Channels
  readonly #monotonicMs: () => number

  constructor(setup: RedisSetup, seeds: readonly NodeAddress[]) {
    this.#topology = new Topology(setup, seeds)
    // The nodes of a cluster pass messages on to each other, so a channel can use any node.
    this.#channels = new Channels(setup, () => this.#topology.findOwner(0)?.connection)
    this.#stopWhenOver = setup.stopWhenOver
    this.#monotonicMs = () => setup.limits.clock.monotonicMs()
  }

  get healthy(): boolean {
    return this.#topology.healthy
  }

  get problem(): string {
    return this.#topology.problem()
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#topology.onHealth(listener)
  }

  add(batch: readonly Hit[]): Promise<readonly number[]> {
    if (this.#topology.closed) return Promise.reject(new CountersError(closedText))
    return this.#stopWhenOver ? this.#addUnlessOver(batch) : this.#addToOwners(batch)
  }

  /** All keys of a call must be in one slot; those of a call with several limits share a hash tag. */
  async admit(checks: readonly LimitCheck[]): Promise<readonly LimitOutcome[]> {
    if (this.#topology.closed) throw new CountersError(closedText)
    const [slot, ...others] = new Set(checks.map(({ key }) => findHashSlot(key)))
    if (slot === undefined) return []
    if (others.length > 0) throw new CountersError('the limits of a call are in several slots of the cluster')
    const owner = this.#topology.findOwner(slot)
    if (owner === undefined) throw new CountersError(this.problem)
    return owner.admit(checks)
  }

  findObstacle(keyPrefix: string, features: readonly string[]): Promise<string> {
    return findScriptObstacle(this, keyPrefix, features)
  }

  openChannel(name: string, listener: ChannelListener): Channel {
    return this.#channels.open(name, listener)
  }

  openBucketShares(keyPrefix: string): RedisBucketShares {
    return new RedisBucketShares({
      keyPrefix,
      run: async run => await this.#findOwner(run.shardKey).runBucketShares(run),
      monotonicMs: this.#monotonicMs,
    })
  }

  async close(): Promise<void> {
    await Promise.all([this.#topology.close(), this.#channels.close()])
  }

  #findOwner(key: string): RedisClusterNode {
    if (this.#topology.closed) throw new CountersError(closedText)
    const owner = this.#topology.findOwner(findHashSlot(key))
    if (owner === undefined) throw new CountersError(this.problem)
    return owner
  }

  /** Rejects the whole batch and adds nothing when the owner of any of its keys is away. */
  #addToOwners(batch: readonly Hit[]): Promise<readonly number[]> {
    const targets: RedisClusterNode[] = []
    for (const { key } of batch) {
      const owner = this.#topology.findOwner(findHashSlot(key))
      if (owner === undefined) return Promise.reject(new CountersError(this.problem))
      if (!owner.connection.usable) return Promise.reject(new CountersError(owner.problem()))
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

  #addUnlessOver(batch: readonly Hit[]): Promise<readonly number[]> {
    const [slot, ...others] = new Set(batch.map(({ key }) => findHashSlot(key)))
    const owner = this.#topology.findOwner(slot ?? 0)
    if (owner !== undefined && others.length === 0) return owner.addUnlessOver(batch)
    return addInTwoSteps(part => this.#addToOwners(part), batch)
  }
}
