import { connect } from 'node:net'

/** A TCP connection for a load: one read buffer, and one write for each turn. */
export interface LoadSocket {
  /** Adds bytes to the write of the turn. They are copied at once. */
  push(bytes: Uint8Array): void
  close(): void
}

const readBufferBytes = 256 * 1024
const writeBufferBytes = 64 * 1024

/**
 * Connects to the loopback address. `onBytes` receives data in a buffer that is overwritten afterwards;
 * `onLost` is called when the server ended the connection.
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
  // Reused memory: with a piece for each message V8 would make a full collection once a second.
  let outgoing = Buffer.allocUnsafeSlow(writeBufferBytes)
  let length = 0
  let closing = false
  socket.on('error', () => {})
  socket.on('close', () => {
    if (!closing) onLost(`port ${port} closed it`)
  })

  function flush(): void {
    socket.write(outgoing.subarray(0, length))
    length = 0
    // The kernel still reads the remaining bytes from the buffer.
    if (socket.writableLength > 0) outgoing = Buffer.allocUnsafeSlow(outgoing.length)
  }

  return {
    push(bytes) {
      if (length === 0) setImmediate(flush)
      if (length + bytes.length > outgoing.length) {
        const before = outgoing.subarray(0, length)
        outgoing = Buffer.allocUnsafeSlow(2 * (length + bytes.length))
        outgoing.set(before)
      }
      outgoing.set(bytes, length)
      length += bytes.length
    },
    close() {
      closing = true
      socket.destroy()
    },
  }
}
