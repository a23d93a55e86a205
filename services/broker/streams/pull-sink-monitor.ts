import type { MessageSink } from '@tollway/grpc/server.ts'
import type { ByteBudget } from '../stream-log/byte-budget.ts'

/** Observes the sink of a pull: how many bytes wait there, and whether the consumer reads them. */
export class PullSinkMonitor {
  readonly #sink: Pick<MessageSink, 'queuedBytes'>
  readonly #budget: ByteBudget
  #counted = 0
  #stalledSinceMs: number | undefined

  constructor(sink: Pick<MessageSink, 'queuedBytes'>, budget: ByteBudget) {
    this.#sink = sink
    this.#budget = budget
  }

  /**
   * Returns for how long the consumer has read nothing although bytes wait, in milliseconds. Called in
   * intervals; each call also counts the waiting bytes in the budget.
   */
  measure(nowMs: number): number {
    const bytes = this.#sink.queuedBytes
    const hasRead = bytes === 0 || bytes < this.#counted
    if (hasRead || this.#stalledSinceMs === undefined) this.#stalledSinceMs = nowMs
    this.#count(bytes)
    return nowMs - this.#stalledSinceMs
  }

  /** Releases the bytes that are counted in the budget. */
  close(): void {
    this.#count(0)
  }

  #count(bytes: number): void {
    this.#budget.spend(bytes - this.#counted)
    this.#counted = bytes
  }
}
