import { connect } from 'node:net'

/** A TCP connection as a load needs it: one buffer to read into, and one write a turn. */
export interface LoadSocket {
  /** Written with everything else of the turn. The bytes are copied by then, and not before. */
  push(bytes: Uint8Array): void
  close(): void
}

const readBufferBytes = 256 * 1024

/**
 * Connects to the loopback address. `onBytes` gets what came in a buffer that is written over afterwards;
 * `onLost` is told when the server ended the connection.
 */
export async function openLoadSocket(
  port: number,
  onBytes: (bytes: Buffer) => void,
  onLost: (reason: string) => void,
): Promise<LoadSocket> {
  const buffer = Buffer.allocUnsafeSlow(readBufferBytes)
  const callback = (length: number) => {
    onBytes(buffer.subarray(0, length))
    return true
  }
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback } })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  let outgoing: Uint8Array[] = []
  let closing = false
  socket.on('error', () => {})
  socket.on('close', () => {
    if (!closing) onLost(`port ${port} closed it`)
  })

  function flush(): void {
    const bytes = outgoing.length === 1 ? outgoing[0] : Buffer.concat(outgoing)
    outgoing = []
    if (bytes !== undefined) socket.write(bytes)
  }

  return {
    push(bytes) {
      if (outgoing.length === 0) setImmediate(flush)
      outgoing.push(bytes)
    },
    close() {
      closing = true
      socket.destroy()
    },
  }
}
