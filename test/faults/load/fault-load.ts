import { createPacer, type Pacer } from '../../bench/load/pacer.ts'
import { createRecorder } from '../../bench/load/recorder.ts'
import { evenSchedule } from '../../bench/load/schedule.ts'
import { startTicker } from '../../bench/load/ticker.ts'
import { waitFor } from '../../support/wait-for.ts'
import { type CallConnection, type CallListener, openCallConnection } from './call-connection.ts'

/**
 * Sends calls at a constant rate, whatever their outcome, until it is stopped. A caller whose connection
 * ends, or gets GOAWAY, continues at the next port.
 */
export interface FaultLoad {
  /** Returns the number of calls by outcome so far. */
  outcomes(): ReadonlyMap<string, number>
  /** Returns the number of calls that were sent and have not ended. */
  inFlight(): number
  /** The number of connections that got a GOAWAY, and of lost connections. */
  readonly goAways: number
  readonly lostConnections: number
  /** Sends no more, waits for the last answers, and closes the connections. */
  stop(): Promise<LoadRecord>
}

export interface FaultLoadOptions {
  /** Connection n starts at port `n mod ports`. */
  readonly ports: readonly number[]
  readonly connections: number
  readonly callsPerSecond: number
  /** Returns the request of the n-th call, from 0. */
  readonly bodyOf: (call: number) => Uint8Array
  /** Returns the outcome of a RateLimitResponse. Defaults to `OK` or `OVER_LIMIT`. */
  readonly read?: (message: Buffer) => string
  /** The timeout after which callers cancel, as Envoy does; no timeout when left out. */
  readonly cancelAfterMs?: number
}

/** The outcome of each call that ended. */
export interface LoadRecord {
  readonly sent: number
  readonly calls: readonly CallRecord[]
}

export interface CallRecord {
  readonly call: number
  /** The time at which it was due, in the time of `performance.now()`. */
  readonly dueMs: number
  /** The lateness of the load itself: the time from then until it noticed that the call was due. */
  readonly loadLateMs: number
  readonly endedMs: number
  /**
   * The time from `dueMs` to `endedMs`, without that lateness; includes the wait of calls that could not be
   * sent.
   */
  readonly latencyMs: number
  /** `OK`, `OVER_LIMIT`, the number of a status and its message, `cancelled`, or `lost`. */
  readonly outcome: string
}

const tickMs = 0.5
/** The most unanswered calls of each connection; others wait to be sent. */
const streams = 1_000
const maxSeconds = 3_600
const timeoutMs = 20_000
/** The delay before the next port is tried after one without a listener. */
const retryMs = 5

/** Runs the load for as long as the function runs, or until it is stopped. */
export async function withFaultLoad<Result>(
  options: FaultLoadOptions,
  use: (load: FaultLoad) => Promise<Result>,
): Promise<Result> {
  const load = await startFaultLoad(options)
  try {
    return await use(load)
  } finally {
    load.close()
  }
}

async function startFaultLoad(options: FaultLoadOptions): Promise<FaultLoad & { close(): void }> {
  const {
    ports,
    connections,
    callsPerSecond,
    bodyOf,
    read,
    cancelAfterMs = Number.POSITIVE_INFINITY,
  } = options
  const counts = new Map<string, number>()
  const numbers = new Map<string, number>()
  const recorded = { calls: createRecorder(), endsMs: createRecorder(), outcomes: createRecorder() }
  const oldest = new Map<number, { readonly slot: Slot; readonly sentMs: number }>()
  let goAways = 0
  let lostConnections = 0
  let sent = 0
  let stopping = false
  let pacer: Pacer | undefined

  function end(call: number, outcome: string): void {
    if (!oldest.delete(call)) return
    const number = numbers.get(outcome) ?? numbers.size
    numbers.set(outcome, number)
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
    recorded.calls.record(call)
    recorded.endsMs.record(performance.now())
    recorded.outcomes.record(number)
    pacer?.answered(call)
  }

  const slots = await Promise.all(
    Array.from({ length: connections }, (_, index) =>
      openSlot(ports, index, {
        read,
        answered: end,
        goAway: () => (goAways += 1),
        lost(calls) {
          lostConnections += 1
          for (const call of calls) end(call, 'lost')
        },
        bodyOf,
      }),
    ),
  )

  function cancelLate(nowMs: number): void {
    // Calls are in the order in which they were sent.
    for (const [call, { slot, sentMs }] of oldest) {
      if (nowMs - sentMs < cancelAfterMs) return
      slot.cancel(call)
      end(call, 'cancelled')
    }
  }

  const schedule = evenSchedule(callsPerSecond, maxSeconds * 1000, connections)
  const ticker = await startTicker(schedule.dueMs, tickMs, () => {
    if (!stopping) pacer?.tick()
    cancelLate(performance.now())
  })
  const startedMs = ticker.start()
  pacer = createPacer({
    schedule,
    startedMs,
    connections,
    streams,
    nowMs: () => performance.now(),
    send(connection, call) {
      const slot = slots[connection]
      if (slot === undefined) return
      sent += 1
      oldest.set(call, { slot, sentMs: performance.now() })
      slot.send(call)
    },
    onEnd: () => {},
  })

  function close(): void {
    stopping = true
    ticker.stop()
    for (const slot of slots) slot.close()
  }

  function records(): readonly CallRecord[] {
    const names = [...numbers.keys()]
    const endsMs = recorded.endsMs.values()
    const outcomes = recorded.outcomes.values()
    const latenessesMs = pacer?.latenessesMs() ?? new Float64Array()
    return Array.from(recorded.calls.values(), (call, place) => {
      const dueMs = startedMs + (call * 1000) / callsPerSecond
      const outcome = names[outcomes[place] ?? 0] ?? ''
      const loadLateMs = latenessesMs[call] ?? 0
      const endedMs = endsMs[place] ?? 0
      return { call, dueMs, loadLateMs, endedMs, latencyMs: endedMs - dueMs - loadLateMs, outcome }
    })
  }

  return {
    outcomes: () => counts,
    inFlight: () => oldest.size,
    get goAways() {
      return goAways
    },
    get lostConnections() {
      return lostConnections
    },
    async stop() {
      stopping = true
      try {
        await waitFor('the last answers', () => oldest.size === 0, timeoutMs)
      } finally {
        close()
      }
      return { sent, calls: records() }
    },
    close,
  }
}

/** A caller with one connection at a time. */
interface Slot {
  send(call: number): void
  cancel(call: number): void
  close(): void
}

interface SlotListener extends Pick<CallListener, 'read' | 'answered' | 'lost'> {
  goAway(): void
  readonly bodyOf: (call: number) => Uint8Array
}

async function openSlot(ports: readonly number[], index: number, listener: SlotListener): Promise<Slot> {
  let place = index
  let backlog: number[] = []
  let connection: CallConnection | undefined
  let closed = false
  /** Connections that got GOAWAY, until their calls have ended. */
  const abandoned: CallConnection[] = []

  async function open(): Promise<void> {
    const current: { connection?: CallConnection } = {}
    const next = await openCallConnection(ports[place % ports.length] ?? 0, {
      read: listener.read,
      answered: listener.answered,
      goAway(notBegun) {
        // A graceful server sends GOAWAY twice: the second one has the last accepted stream.
        if (connection !== undefined && connection === current.connection) {
          listener.goAway()
          abandoned.push(connection)
          moveOn()
        }
        for (const call of notBegun) send(call)
      },
      lost(unanswered) {
        const isCurrent = connection === current.connection
        // The end of an abandoned connection is no loss, unless it still had calls.
        if (isCurrent || unanswered.length > 0) listener.lost(unanswered)
        if (isCurrent) moveOn()
      },
    })
    current.connection = next
    connection = next
    const waiting = backlog
    backlog = []
    for (const call of waiting) next.send(listener.bodyOf(call), call)
  }

  function moveOn(): void {
    connection = undefined
    if (closed) return
    place += 1
    open().catch(() => setTimeout(moveOn, retryMs))
  }

  function send(call: number): void {
    if (connection === undefined) backlog.push(call)
    else connection.send(listener.bodyOf(call), call)
  }

  await open()
  return {
    send,
    cancel(call) {
      connection?.cancel(call)
      backlog = backlog.filter(other => other !== call)
    },
    close() {
      closed = true
      connection?.close()
      for (const old of abandoned) old.close()
    },
  }
}
