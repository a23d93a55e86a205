import type { MessageSink } from '@tollway/grpc/server.ts'
import type { ByteBudget } from '../stream-log/byte-budget.ts'

/** Observes how many bytes wait in the sink of a pull, and whether the consumer reads them. */
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
   * Returns for how many milliseconds the consumer has read nothing although bytes wait. Also counts these
   * bytes in the budget.
   */
  measure(nowMs: number): number {
    const bytes = this.#sink.queuedBytes
    const hasRead = bytes === 0 || bytes < this.#counted
    if (hasRead || this.#stalledSinceMs === undefined) this.#stalledSinceMs = nowMs
    this.#count(bytes)
    return nowMs - this.#stalledSinceMs
  }

  close(): void {
    this.#count(0)
  }

  #count(bytes: number): void {
    this.#budget.spend(bytes - this.#counted)
    this.#counted = bytes
  }
}
