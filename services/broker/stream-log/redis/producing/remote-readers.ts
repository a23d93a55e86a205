import type { Ring } from '../../ring.ts'
import type { RingCursor } from '../../stream-log.ts'
import type { RedisLogSetup } from '../setup.ts'

/**
 * Makes a producer wait for readers at other brokers: a cursor in its ring for each broker, at the position
 * of the slowest reader there.
 */
export class RemoteReaders {
  readonly #setup: RedisLogSetup
  readonly #ring: Ring
  readonly #pods = new Map<string, { readonly cursor: RingCursor; reportedMs: number }>()

  constructor(setup: RedisLogSetup, ring: Ring) {
    this.#setup = setup
    this.#ring = ring
  }

  /** Takes a report of a broker: the position of its slowest reader, or undefined without readers. */
  report(podId: string, position: number | undefined): void {
    if (position === undefined || this.#ring.end !== undefined) {
      this.#drop(podId)
      return
    }
    const reportedMs = this.#setup.clock.monotonicMs()
    const pod = this.#pods.get(podId) ?? { cursor: this.#ring.read({ onReadable() {} }), reportedMs }
    this.#pods.set(podId, pod)
    pod.reportedMs = reportedMs
    pod.cursor.seek(position)
  }

  /** Removes brokers without a report for too long. */
  dropVanished(): void {
    const { clock, timings } = this.#setup
    const beforeMs = clock.monotonicMs() - timings.lostMs
    for (const [podId, { reportedMs }] of this.#pods) if (reportedMs < beforeMs) this.#drop(podId)
  }

  /** This broker could not read reports: all timeouts start again. */
  resetDeadlines(): void {
    for (const pod of this.#pods.values()) pod.reportedMs = this.#setup.clock.monotonicMs()
  }

  clear(): void {
    for (const podId of [...this.#pods.keys()]) this.#drop(podId)
  }

  #drop(podId: string): void {
    this.#pods.get(podId)?.cursor.close()
    this.#pods.delete(podId)
  }
}
