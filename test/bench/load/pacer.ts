import { createRecorder } from './recorder.ts'
import type { Schedule } from './schedule.ts'

export interface PacerOptions {
  readonly schedule: Schedule
  /** The start in the time of `nowMs`. */
  readonly startedMs: number
  readonly connections: number
  /** The most calls in flight on each connection. Further due calls wait for an answer. */
  readonly streams: number
  /** Returns milliseconds of a monotonic clock. */
  readonly nowMs: () => number
  readonly send: (connection: number, call: number) => void
  /** Called once, with the last answer. */
  readonly onEnd: () => void
}

/**
 * Sends each call of a schedule when it is due, whatever the outcome of earlier calls. A latency counts from
 * the due time: the wait of calls that could not be sent because the server paused is included (no
 * coordinated omission).
 */
export interface Pacer {
  /** Sends all due calls. Must be called often; late ticks increase the latencies. */
  tick(): void
  answered(call: number): void
  /** Returns the times from the due time of each answered call to its answer, in milliseconds. */
  latenciesMs(): Float64Array
  /** Returns the lateness of the load in milliseconds: from the due time of a call to its tick. */
  latenessesMs(): Float64Array
}

const none = -1

export function createPacer(options: PacerOptions): Pacer {
  const { schedule, startedMs, connections, streams, nowMs, send, onEnd } = options
  const calls = schedule.dueMs.length
  const inFlight = new Int32Array(connections)
  /** Due calls that were not sent yet: a list for each connection. */
  const firstWaiting = new Int32Array(connections).fill(none)
  const lastWaiting = new Int32Array(connections).fill(none)
  const nextWaiting = new Int32Array(calls).fill(none)
  const latencies = createRecorder()
  const latenesses = createRecorder()
  let due = 0
  let answered = 0
  const dueMs = (call: number) => startedMs + (schedule.dueMs[call] ?? 0)
  const connectionOf = (call: number) => schedule.connections[call] ?? 0

  function enqueue(call: number): void {
    const connection = connectionOf(call)
    const last = lastWaiting[connection] ?? none
    if (last === none) firstWaiting[connection] = call
    else nextWaiting[last] = call
    lastWaiting[connection] = call
    sendNext(connection)
  }

  /** Sends the next call of a connection if one waits and there is room. */
  function sendNext(connection: number): void {
    const call = firstWaiting[connection] ?? none
    const running = inFlight[connection] ?? 0
    if (call === none || running >= streams) return
    const next = nextWaiting[call] ?? none
    firstWaiting[connection] = next
    if (next === none) lastWaiting[connection] = none
    inFlight[connection] = running + 1
    send(connection, call)
  }

  return {
    tick() {
      const now = nowMs()
      while (due < calls && dueMs(due) <= now) {
        latenesses.record(now - dueMs(due))
        due += 1
        enqueue(due - 1)
      }
    },
    answered(call) {
      latencies.record(nowMs() - dueMs(call))
      const connection = connectionOf(call)
      inFlight[connection] = (inFlight[connection] ?? 1) - 1
      answered += 1
      if (answered === calls) onEnd()
      else sendNext(connection)
    },
    latenciesMs: () => latencies.values(),
    latenessesMs: () => latenesses.values(),
  }
}
