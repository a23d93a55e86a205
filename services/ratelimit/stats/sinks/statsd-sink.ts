import type { Stats } from '../stats.ts'
import type { Sink } from './sink.ts'
import { createStatsdLines, type Dialect, type Packet, packLines } from './statsd-lines.ts'
import type { StatsTransport } from './transport.ts'

/**
 * After this many lines, the sink pauses for `pauseMs`, in which decisions can run. More lines at once would
 * overflow the receive buffer of a datagram socket, and be lost silently.
 */
const linesPerTurn = 500
const pauseMs = 1
const lastFlushMs = 400
const closeGraceMs = 200

/** The counter of lines that were lost with a connection, or did not fit into a datagram. */
export const droppedLinesName = 'ratelimit.statsd.dropped_lines'

interface StatsdSinkOptions {
  readonly stats: Stats
  readonly dialect: Dialect
  readonly openTransport: (onWritable: () => void) => StatsTransport
}

/**
 * Sends changes as statsd lines. No lines are queued for a receiver that is away or slow: changes that were
 * not sent stay in the counters, and are sent with the next flush that succeeds.
 */
export function createStatsdSink({ stats, dialect, openTransport }: StatsdSinkOptions): Sink {
  const dropped = stats.counter(droppedLinesName)
  const lines = createStatsdLines(stats, dialect)
  let pass: Generator<Packet, undefined> | undefined
  let pause: NodeJS.Timeout | undefined
  let stopping: Promise<void> | undefined
  let onPassEnd = () => {}

  const proceed = () => {
    pause = undefined
    let sent = 0
    while (pass !== undefined && transport.writable()) {
      const { value: packet } = pass.next()
      if (packet === undefined) {
        pass = undefined
        onPassEnd()
        return
      }
      transport.write(packet)
      sent += packet.lines
      if (sent >= linesPerTurn) {
        pause = setTimeout(proceed, pauseMs)
        return
      }
    }
  }
  const transport = openTransport(() => {
    if (pause === undefined) proceed()
  })
  const begin = () => {
    pass ??= packLines(lines(), transport.packetBytes, () => {
      dropped.value += 1
    })
    if (pause === undefined) proceed()
  }
  const endOfPass = () =>
    new Promise<void>(resolve => {
      onPassEnd = resolve
      begin()
    })
  const stop = async () => {
    let deadline: NodeJS.Timeout | undefined
    const late = new Promise<void>(resolve => {
      deadline = setTimeout(resolve, lastFlushMs)
    })
    // The running pass misses changes of series that it has already visited, so another one follows.
    if (pass !== undefined) await Promise.race([endOfPass(), late])
    if (pass === undefined) await Promise.race([endOfPass(), late])
    clearTimeout(deadline)
    clearTimeout(pause)
    pass = undefined
    await transport.close(closeGraceMs)
  }
  return {
    flush() {
      if (stopping === undefined) begin()
    },
    stop() {
      stopping ??= stop()
      return stopping
    },
  }
}
