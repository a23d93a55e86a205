import { createRecorder } from './recorder.ts'

export interface PacerOptions {
  readonly callsPerSecond: number
  /** The number of calls after which the pace ends. */
  readonly calls: number
  readonly connections: number
  /** Calls in flight on each connection, at most. What is due beyond that waits for an answer. */
  readonly streams: number
  /** Milliseconds of a clock that never goes back. */
  readonly nowMs: () => number
  readonly send: (connection: number, call: number) => void
  /** Called once, with the last answer. */
  readonly onEnd: () => void
}

/**
 * Decides when each call of a load at a constant rate is sent. Call n is due at `n / rate` after the start,
 * whatever became of the calls before it, and its latency counts from then: the wait of calls that could not
 * be sent because the server stood still is in the figures (no coordinated omission).
 */
export interface Pacer {
  /** Sends what is due. To be called often; a late tick is in the latencies too. */
  tick(): void
  answered(call: number): void
  /** From the intended time of each answered call to its answer, in milliseconds. */
  latenciesMs(): Float64Array
}

/** The first call is due at once. Call n goes to connection `n mod connections`. */
export function createPacer(options: PacerOptions): Pacer {
  const { callsPerSecond, calls, connections, streams, nowMs, send, onEnd } = options
  const startedMs = nowMs()
  const inFlight = new Int32Array(connections)
  /** The next call of each connection that was not sent yet. */
  const nextCalls = Int32Array.from({ length: connections }, (_, connection) => connection)
  const latencies = createRecorder()
  let due = 0
  let answered = 0
  const dueMs = (call: number) => startedMs + (call * 1000) / callsPerSecond

  /** Sends the next call of a connection if it is due and there is room. */
  function sendNext(connection: number): void {
    const call = nextCalls[connection] ?? 0
    const running = inFlight[connection] ?? 0
    if (call >= due || running >= streams) return
    nextCalls[connection] = call + connections
    inFlight[connection] = running + 1
    send(connection, call)
  }

  return {
    tick() {
      const now = nowMs()
      while (due < calls && dueMs(due) <= now) {
        due += 1
        sendNext((due - 1) % connections)
      }
    },
    answered(call) {
      latencies.record(nowMs() - dueMs(call))
      const connection = call % connections
      inFlight[connection] = (inFlight[connection] ?? 1) - 1
      answered += 1
      if (answered === calls) onEnd()
      else sendNext(connection)
    },
    latenciesMs: () => latencies.values(),
  }
}
