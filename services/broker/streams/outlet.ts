import type { MessageSink } from '@tollway/grpc/server.ts'
import type { ByteBudget } from '../log/byte-budget.ts'

/** Observes the sink of a pull: its bytes, and whether the consumer reads them. */
export interface Outlet {
  /**
   * Returns the time for which the consumer has not read, in milliseconds. It is called in intervals, in
   * which it also counts the bytes of the sink in the budget.
   */
  measure(nowMs: number): number
  /** Releases the counted bytes. */
  close(): void
}

export function createOutlet(sink: Pick<MessageSink, 'queuedBytes'>, budget: ByteBudget): Outlet {
  let counted = 0
  let sinceMs: number | undefined

  function count(bytes: number): void {
    budget.spend(bytes - counted)
    counted = bytes
  }

  return {
    measure(nowMs) {
      const bytes = sink.queuedBytes
      if (bytes === 0 || bytes < counted || sinceMs === undefined) sinceMs = nowMs
      count(bytes)
      return nowMs - sinceMs
    },
    close: () => count(0),
  }
}
