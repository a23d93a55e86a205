import { heartbeatScript } from '../scripts.ts'
import type { RedisLogSetup } from '../setup.ts'

/**
 * The expiry of a heartbeat as a multiple of the timeout for lost brokers; it removes heartbeats that no
 * broker reads.
 */
const expiryFactor = 3

/**
 * Sends the heartbeat of this broker, and detects lost brokers.
 *
 * A heartbeat is an increasing counter. The reader measures its silence with its own clock, and only over
 * reads that Redis has answered: neither a different clock nor an unavailable Redis makes a broker seem lost.
 */
export class Pods {
  readonly #setup: RedisLogSetup
  readonly #seen = new Map<string, { readonly count: string; readonly sinceMs: number }>()
  #count = 0
  #answers = 0
  #checkedMs = 0

  constructor(setup: RedisLogSetup) {
    this.#setup = setup
  }

  /**
   * Sends the heartbeat, and reads those of the other brokers. Returns how long each was silent, in
   * milliseconds.
   */
  async beat(others: ReadonlySet<string>): Promise<ReadonlyMap<string, number>> {
    const { clock, timings } = this.#setup
    await this.#send()
    // A process that was paused may have read the heartbeats before the others were paused too.
    if (clock.monotonicMs() - this.#checkedMs > timings.lostMs / 2) this.resetDeadlines()
    this.#checkedMs = clock.monotonicMs()
    for (const other of this.#seen.keys()) if (!others.has(other)) this.#seen.delete(other)
    const silences = [...others].map(async other => [other, await this.#readSilence(other)] as const)
    return new Map(await Promise.all(silences))
  }

  /** This broker could not read heartbeats for a while: all timeouts start again. */
  resetDeadlines(): void {
    this.#seen.clear()
  }

  /** Shows others that this broker has answered their question. */
  async answer(): Promise<void> {
    this.#answers += 1
    await this.#send()
  }

  /** Removes the heartbeat of this broker. */
  async deregister(): Promise<void> {
    const { podId, keys, commands } = this.#setup
    await commands.call('DEL', keys.heartbeat(podId), keys.inbox(podId))
  }

  async #send(): Promise<void> {
    const { podId, keys, commands, timings } = this.#setup
    this.#count += 1
    const names = [keys.heartbeat(podId), keys.inbox(podId)]
    const values = [`${this.#count} ${this.#answers}`, timings.lostMs * expiryFactor]
    await commands.call('EVAL', heartbeatScript, names.length, ...names, ...values)
  }

  async #readSilence(other: string): Promise<number> {
    const { keys, commands, clock } = this.#setup
    const count = String(await commands.call('GET', keys.heartbeat(other)))
    const last = this.#seen.get(other)
    const nowMs = clock.monotonicMs()
    if (last?.count === count) return nowMs - last.sinceMs
    this.#seen.set(other, { count, sinceMs: nowMs })
    return 0
  }
}
