import type { MessageSink } from '@tollway/grpc/server.ts'

/** Looks whether a consumer takes anything of what waits for it. */
export interface StallWatch {
  /** For how long it has taken nothing, in milliseconds; looked at in intervals. */
  look(nowMs: number): number
}

export function createStallWatch(sink: Pick<MessageSink, 'queuedBytes'>): StallWatch {
  let lastBytes = 0
  let sinceMs: number | undefined
  return {
    look(nowMs) {
      const bytes = sink.queuedBytes
      if (bytes === 0 || bytes < lastBytes || sinceMs === undefined) sinceMs = nowMs
      lastBytes = bytes
      return nowMs - sinceMs
    },
  }
}
