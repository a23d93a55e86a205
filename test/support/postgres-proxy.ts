import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** The faults of the connection to PostgreSQL. */
export type PostgresFault =
  /** No data in either direction, without closing: a partitioned server. */
  | 'silence'
  /** The connection ends when a commit is sent, which the server does not receive. */
  | 'lose-commit'
  /** The server commits, and the connection ends before its answer. */
  | 'lose-commit-answer'

export interface PostgresProxy {
  readonly port: number
  /** Replaces the fault; undefined for none. With a count, it applies only that many times. */
  setFault(fault: PostgresFault | undefined, times?: number): void
  /** Returns the number of affected commits. */
  struck(): number
  /** Closes all open connections. */
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
