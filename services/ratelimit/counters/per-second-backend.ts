import type { LimitCheck } from './admission/limit-check.ts'
import { addInTwoSteps, addSplit } from './batching/split-batch.ts'
import type { BucketShares } from './bucket-shares.ts'
import type { Channel, ChannelListener, Counters, Hit } from './counters.ts'
import type { Reservations } from './reservations.ts'

type AdmittingCounters = Counters & Pick<Required<Counters>, 'admit'>

/**
 * Counters with a separate backend for limits with the unit second. That backend may be small and may lose
 * counters, since little is lost with them. Calls with algorithms or several limits are counted in the main
 * backend, even if their unit is a second. Healthy while both backends are.
 */
export class PerSecondCounters implements AdmittingCounters {
  readonly #main: AdmittingCounters
  readonly #perSecond: Counters
  readonly #stopWhenOver: boolean

  /**
   * @param stopWhenOver whether both backends stop counting over the limit. A batch that uses both then takes
   * two steps, and hits that other callers add between the steps are not seen.
   */
  constructor(main: AdmittingCounters, perSecond: Counters, stopWhenOver: boolean) {
    this.#main = main
    this.#perSecond = perSecond
    this.#stopWhenOver = stopWhenOver
  }

  get reservations(): Reservations | undefined {
    return this.#main.reservations
  }

  openBucketShares(keyPrefix: string): BucketShares | undefined {
    return this.#main.openBucketShares?.(keyPrefix)
  }

  get healthy(): boolean {
    return this.#main.healthy && this.#perSecond.healthy
  }

  get problem(): string {
    if (!this.#main.healthy) return this.#main.problem
    return this.#perSecond.healthy ? '' : `per second: ${this.#perSecond.problem}`
  }

  onHealth(listener: (healthy: boolean) => void): void {
    let last = this.healthy
    const check = () => {
      if (this.healthy === last) return
      last = !last
      listener(last)
    }
    this.#main.onHealth(check)
    this.#perSecond.onHealth(check)
  }

  add(batch: readonly Hit[]): ReturnType<Counters['add']> {
    const [first] = batch
    if (first === undefined) return this.#main.add(batch)
    const owner = this.#pickBackend(first)
    if (batch.every(hit => this.#pickBackend(hit) === owner)) return owner.add(batch)
    return this.#stopWhenOver ? addInTwoSteps(part => this.#addToBoth(part), batch) : this.#addToBoth(batch)
  }

  admit(checks: readonly LimitCheck[]): ReturnType<AdmittingCounters['admit']> {
    return this.#main.admit(checks)
  }

  async findObstacle(keyPrefix: string, features: readonly string[]): Promise<string> {
    return (await this.#main.findObstacle?.(keyPrefix, features)) ?? ''
  }

  openChannel(name: string, listener: ChannelListener): Channel | undefined {
    return this.#main.openChannel?.(name, listener)
  }

  async close(): Promise<void> {
    await Promise.all([this.#main.close(), this.#perSecond.close()])
  }

  #pickBackend(hit: Hit): Counters {
    return hit.perSecond ? this.#perSecond : this.#main
  }

  #addToBoth(batch: readonly Hit[]): Promise<readonly number[]> {
    return addSplit(
      batch,
      hit => this.#pickBackend(hit),
      (owner, part) => owner.add(part),
    )
  }
}
