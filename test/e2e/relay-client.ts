import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Period } from './load.ts'

/**
 * A client of the relay, which does nothing (`relay.ts`), at the same time as the calls of a test: the times
 * in which it waits longer than usual are those in which the machine is late.
 */
export interface RelayClient {
  /** The waits of at least `lateMs`. */
  readonly late: readonly Period[]
  /** Resolves when the last call was answered. */
  stop(): Promise<void>
}

export const relayPort = 9000

/** A message is one byte, the number of round trips that the relay makes to its store before it answers. */
const message = (roundTrips: number) => Buffer.of(roundTrips)

/** Sends messages at this interval on one connection, as a producer sends them to a consumer. */
export function streamThroughRelay(host: string, intervalMs: number, lateMs: number): RelayClient {
  const late: Period[] = []
  const socket = connect(relayPort, host)
  const timer = setInterval(() => socket.write(message(1)), intervalMs)
  let lastMs = performance.now()
  socket.on('data', () => {
    const nowMs = performance.now()
    if (nowMs - lastMs >= lateMs) late.push({ beginMs: lastMs, endMs: nowMs })
    lastMs = nowMs
  })
  return {
    late,
    async stop() {
      clearInterval(timer)
      socket.destroy()
    },
  }
}

/** Makes one call after the other, each on a connection of its own, as a caller of an API does. */
export function callRelay(host: string, roundTrips: number, pauseMs: number, lateMs: number): RelayClient {
  const late: Period[] = []
  let stopped = false

  async function call(): Promise<void> {
    const beginMs = performance.now()
    const socket: Socket = connect(relayPort, host)
    socket.write(message(roundTrips))
    await once(socket, 'data').finally(() => socket.destroy())
    const endMs = performance.now()
    if (endMs - beginMs >= lateMs) late.push({ beginMs, endMs })
  }

  async function run(): Promise<void> {
    while (!stopped) {
      await call()
      await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
  }

  const running = run()
  return {
    late,
    async stop() {
      stopped = true
      await running
    },
  }
}

/** Returns the milliseconds of a period that none of the others covers. */
export function uncoveredMs({ beginMs, endMs }: Period, others: readonly Period[]): number {
  let uncovered = 0
  let reachedMs = beginMs
  for (const other of [...others].sort((a, b) => a.beginMs - b.beginMs)) {
    if (other.endMs <= reachedMs) continue
    uncovered += Math.max(0, Math.min(other.beginMs, endMs) - reachedMs)
    reachedMs = Math.min(other.endMs, endMs)
    if (reachedMs >= endMs) break
  }
  return uncovered + Math.max(0, endMs - reachedMs)
}
