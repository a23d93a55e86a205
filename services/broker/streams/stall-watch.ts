import type { MessageSink } from '@tollway/grpc/server.ts'

/** Watches whether a consumer reads its queued messages. */
export interface StallWatch {
  /** The time for which it has not read, in milliseconds; called in intervals. */
  measure(nowMs: number): number
}

export function createStallWatch(sink: Pick<MessageSink, 'queuedBytes'>): StallWatch {
  let lastBytes = 0
  let sinceMs: number | undefined
  return {
    measure(nowMs) {
      const bytes = sink.queuedBytes
      if (bytes === 0 || bytes < lastBytes || sinceMs === undefined) sinceMs = nowMs
      lastBytes = bytes
      return nowMs - sinceMs
    },
  }
}
