import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** What goes wrong on the way to PostgreSQL. */
export type PostgresFault =
  /** Nothing goes on in any direction, and nobody hangs up: a server that was cut off. */
  | 'silence'
  /** The connection ends when a commit is sent, and the server never sees it. */
  | 'lose-commit'
  /** The server commits, and the connection ends before its answer comes. */
  | 'lose-commit-answer'

export interface PostgresProxy {
  readonly port: number
  /** Holds until the next call; undefined for none. With a count, only that many times. */
  setFault(fault: PostgresFault | undefined, times?: number): void
  /** How many commits were struck. */
  struck(): number
  /** Ends all connections that there are. */
  cut(): void
  stop(): void
}

const commitStatement = Buffer.from('COMMIT\0')

export async function startPostgresProxy(targetPort: number): Promise<PostgresProxy> {
  const clients = new Set<Socket>()
  let fault: PostgresFault | undefined
  let left = Number.POSITIVE_INFINITY
  let struck = 0

  function strikes(bytes: Buffer): boolean {
    if (!fault?.startsWith('lose') || left <= 0 || !bytes.includes(commitStatement)) return false
    left -= 1
    struck += 1
    return true
  }

  const server = createServer({ noDelay: true }, client => {
    const upstream = connect({ port: targetPort, host: '127.0.0.1', noDelay: true })
    let answerIsLost = false
    clients.add(client)
    client
      .on('error', () => {})
      .on('close', () => {
        clients.delete(client)
        upstream.destroy()
      })
    upstream.on('error', () => {}).on('close', () => client.destroy())
    client.on('data', bytes => {
      if (fault === 'silence') return
      if (strikes(bytes)) {
        if (fault === 'lose-commit') {
          client.destroy()
          return
        }
        answerIsLost = true
      }
      upstream.write(bytes)
    })
    upstream.on('data', bytes => {
      if (fault === 'silence') return
      if (answerIsLost) client.destroy()
      else client.write(bytes)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const client of clients) client.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    setFault(next, times = Number.POSITIVE_INFINITY) {
      fault = next
      left = times
    },
    struck: () => struck,
    cut,
    stop() {
      cut()
      server.close()
    },
  }
}
