import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface LossyProxy {
  readonly url: string
  lost(): number
  close(): void
}

/** The proxy passes each request on, and loses a share of the answers. @param targetPorts used in turn */
export async function startLossyProxy(
  targetPorts: readonly number[],
  share: number,
  random: () => number,
): Promise<LossyProxy> {
  const sockets = new Set<Socket>()
  let lost = 0
  let turn = 0
  const server = createServer(client => {
    const upstream = connect(targetPorts[turn % targetPorts.length] ?? 0, '127.0.0.1')
    turn += 1
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          other.destroy()
        })
    }
    client.pipe(upstream)
    upstream.once('data', first => {
      if (random() < share) {
        lost += 1
        client.destroy()
        return
      }
      client.write(first)
      upstream.pipe(client)
    })
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lost: () => lost,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
