import { createSocket } from 'node:dgram'
import { createServer, type Socket } from 'node:net'

/** A statsd server on loopback that keeps the received data. */
export interface Receiver {
  readonly port: number
  /** Datagrams, or the chunks of TCP. */
  readonly pieces: readonly Buffer[]
  lines(): readonly string[]
  close(): Promise<void>
}

/** Returns the value that a receiver would have for each counter, without tags. */
export function countersOf(lines: readonly string[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>()
  for (const line of lines) {
    const [, name = '', value] = /^(.*?):([\d.]+)\|c(?:\|#.*)?$/.exec(line) ?? []
    if (value !== undefined) sums.set(name, (sums.get(name) ?? 0) + Number(value))
  }
  return sums
}

/** Returns the value that the receiver would have for one counter. */
export function counted(receiver: Receiver, name: string): number {
  return countersOf(receiver.lines()).get(name) ?? 0
}

function linesOf(pieces: readonly Buffer[]): readonly string[] {
  const lines = Buffer.concat(pieces).toString().split('\n')
  // The text after the last line end is empty, or the beginning of an incomplete line.
  return lines.slice(0, -1)
}

export async function listenUdp(port = 0): Promise<Receiver> {
  const socket = createSocket('udp4')
  const pieces: Buffer[] = []
  socket.on('message', message => pieces.push(message))
  await new Promise<void>(resolve => socket.bind(port, '127.0.0.1', resolve))
  return {
    port: socket.address().port,
    pieces,
    lines: () => linesOf(pieces),
    close: () => new Promise(resolve => socket.close(() => resolve())),
  }
}

/**
 * Listens for statsd lines over TCP. With `reads: false`, it accepts connections and never reads from them.
 */
export async function listenTcp(port = 0, { reads = true } = {}): Promise<Receiver> {
  const pieces: Buffer[] = []
  const sockets = new Set<Socket>()
  const server = createServer({ pauseOnConnect: !reads }, socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    if (reads) socket.on('data', piece => pieces.push(piece))
  })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    pieces,
    lines: () => linesOf(pieces),
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) socket.resetAndDestroy()
      }),
  }
}

/** Waits until a condition is true; fails with the observed value after five seconds. */
export async function until(
  what: string,
  isTrue: () => boolean,
  seen: () => unknown = isTrue,
): Promise<void> {
  const deadlineMs = performance.now() + 5000
  while (!isTrue()) {
    if (performance.now() > deadlineMs)
      throw new Error(`timeout while waiting for ${what}; the last value is ${seen()}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
