import { createServer, type Socket } from 'node:net'

/** A statsd server over TCP that sums the received values and keeps no lines: long runs send millions. */
export interface StatsdSums {
  readonly port: number
  readonly counters: ReadonlyMap<string, number>
  /** The names that were received as `|g` or `|ms`. */
  readonly gaugesAndTimers: ReadonlySet<string>
  close(): Promise<void>
}

export async function listenStatsd(): Promise<StatsdSums> {
  const counters = new Map<string, number>()
  const gaugesAndTimers = new Set<string>()
  const sockets = new Set<Socket>()
  const take = (line: string) => {
    const [, name = '', value, kind] = /^(.*?):([\d.]+)\|(\w+)/.exec(line) ?? []
    if (kind === 'c') counters.set(name, (counters.get(name) ?? 0) + Number(value))
    else if (kind !== undefined) gaugesAndTimers.add(name)
  }
  const server = createServer(socket => {
    sockets.add(socket)
    let begun = ''
    socket.setEncoding('utf8')
    socket.on('data', (text: string) => {
      const lines = (begun + text).split('\n')
      begun = lines.pop() ?? ''
      for (const line of lines) take(line)
    })
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    counters,
    gaugesAndTimers,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
