import { addInTwoSteps, addSplit } from './batching/split-batch.ts'
import type { Counters, Hit } from './counters.ts'
import { withHealth } from './with-health.ts'

interface PerSecondOptions {
  /** The counters of all limits except those with the unit second. */
  readonly counters: Counters
  /**
   * The counters of limits with the unit second. Its Redis may be small and may lose counters, since little
   * is lost with them.
   */
  readonly perSecond: Counters
  /**
   * Whether both backends stop counting over the limit. A batch that uses both then takes two steps, and hits
   * that other callers add between the steps are not seen.
   */
  readonly stopWhenOver: boolean
}

/** Counters with a separate backend for limits per second. Healthy while both backends are. */
export function createPerSecondCounters(options: PerSecondOptions): Counters {
  const { counters, perSecond, stopWhenOver } = options
  const listeners: ((healthy: boolean) => void)[] = []
  let healthy = bothHealthy()

  function bothHealthy(): boolean {
    return counters.healthy && perSecond.healthy
  }

  function checkHealth(): void {
    if (bothHealthy() === healthy) return
    healthy = !healthy
    for (const listener of listeners) listener(healthy)
  }

  counters.onHealth(checkHealth)
  perSecond.onHealth(checkHealth)

  const pickBackend = (hit: Hit) => (hit.perSecond ? perSecond : counters)
  const addToBoth = (batch: readonly Hit[]) => addSplit(batch, pickBackend, (owner, part) => owner.add(part))

  function problem(): string {
    if (!counters.healthy) return counters.problem
    return perSecond.healthy ? '' : `per second: ${perSecond.problem}`
  }

  function add(batch: readonly Hit[]): ReturnType<Counters['add']> {
    const [first] = batch
    if (first === undefined) return counters.add(batch)
    const owner = pickBackend(first)
    if (batch.every(hit => pickBackend(hit) === owner)) return owner.add(batch)
    return stopWhenOver ? addInTwoSteps(addToBoth, batch) : addToBoth(batch)
  }

  function onHealth(listener: (healthy: boolean) => void): void {
    listeners.push(listener)
  }

  async function close(): Promise<void> {
    await Promise.all([counters.close(), perSecond.close()])
  }

  // Calls with algorithms or several limits are counted in the main backend, even if their unit is a second.
  const { admit, findObstacle } = counters
  const parts = { add, onHealth, close, ...(admit && { admit }), ...(findObstacle && { findObstacle }) }
  return withHealth(parts, { healthy: () => healthy, problem })
}
