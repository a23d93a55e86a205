import { lstat, unlink } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { BoundAddress, GrpcLimits, ListenAddress } from '../server.ts'
import { Handshakes } from './tls-handshakes.ts'

export type Listener = Awaited<ReturnType<typeof openListener>>

/**
 * Binds an address, and passes each accepted connection to `onConnection`, with TLS after its handshake.
 * TCP_NODELAY is set. Rejects with the system error when the address cannot be bound, and with the errors of
 * `Handshakes`.
 */
export async function openListener(
  address: ListenAddress,
  limits: GrpcLimits,
  onConnection: (socket: Socket) => void,
) {
  const handshakes = address.tls && new Handshakes(address.tls, limits, onConnection)
  const server = createServer({ noDelay: true }, handshakes?.begin ?? onConnection)
  try {
    await bindOrReplace(server, address)
  } catch (error) {
    handshakes?.close()
    throw error
  }
  return {
    bound: boundAddress(server, address),
    /**
     * Accepts no more connections, removes the socket file, and aborts unfinished TLS handshakes. Accepted
     * connections continue.
     */
    close() {
      server.close()
      handshakes?.close()
    },
  }
}

/**
 * Binds the address. A socket file on which no process listens was left by a killed process, and is replaced.
 */
async function bindOrReplace(server: Server, address: ListenAddress): Promise<void> {
  try {
    await bind(server, address)
  } catch (error) {
    if (!('socketPath' in address) || !(await isStale(address.socketPath, error))) throw error
    await unlink(address.socketPath)
    await bind(server, address)
  }
}

function bind(server: Server, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    const onListening = () => {
      server.off('error', reject)
      // A failed accept, such as with EMFILE, affects only its connection.
      server.on('error', () => {})
      resolve()
    }
    if ('socketPath' in address) server.listen({ path: address.socketPath }, onListening)
    else {
      const { host, port, reusePort = false } = address
      server.listen({ host, port, reusePort }, onListening)
    }
  })
}

function boundAddress(server: Server, asked: ListenAddress): BoundAddress {
  const address = server.address()
  if ('socketPath' in asked) return { socketPath: asked.socketPath }
  return { host: asked.host, port: typeof address === 'object' && address ? address.port : asked.port }
}

/**
 * Returns whether a socket file may be replaced: only a refused connection proves that no process listens.
 */
async function isStale(socketPath: string, bindError: unknown): Promise<boolean> {
  if (!isCode(bindError, 'EADDRINUSE')) return false
  if (!(await lstat(socketPath)).isSocket()) return false
  return new Promise(resolve => {
    const socket = connect(socketPath)
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', error => resolve(isCode(error, 'ECONNREFUSED')))
  })
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
