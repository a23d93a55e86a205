import { createConnection, type Socket } from 'node:net'
import { createReconnect, type Transport, type TransportOptions } from './transport.ts'

const packetBytes = 16 * 1024
/** The timeout for a connection that is never established, such as one to an unused address. */
const connectTimeoutMs = 1500
/** A connection whose receiver takes no bytes for this time, while bytes wait for it, is closed. */
const stallTimeoutMs = 10_000

/**
 * Sends packets over one TCP connection. It is not writable when more than the socket's 64 KiB wait, so that
 * a receiver that does not read costs no more memory than that.
 */
export function openTcpTransport(options: TransportOptions): Transport {
  const { dropped } = options
  let closing = false
  const connect = () =>
    openSocket(options, reason => {
      if (!closing) reconnect.lost(reason)
    })
  const reconnect = createReconnect(options, () => {
    socket = connect()
  })
  let socket = connect()
  return {
    packetBytes,
    writable: () => !closing && socket.readyState === 'open' && !socket.writableNeedDrain,
    write({ text, lines }) {
      socket.write(text, error => {
        if (error) dropped.value += lines
        else reconnect.sent()
      })
    },
    close(graceMs) {
      closing = true
      reconnect.stop()
      return endSocket(socket, graceMs)
    },
  }
}

function openSocket(options: TransportOptions, onLost: (reason: string) => void): Socket {
  const { host, port, onWritable } = options
  const socket = createConnection({ host, port, keepAlive: true, keepAliveInitialDelay: 10_000 })
  const patience = setTimeout(() => socket.destroy(new Error('connect timeout')), connectTimeoutMs)
  let reason = 'the connection was closed'
  socket.on('connect', () => {
    clearTimeout(patience)
    socket.setTimeout(stallTimeoutMs)
    onWritable()
  })
  socket.on('timeout', () => {
    if (socket.writableLength > 0) socket.destroy(new Error('the receiver does not read'))
  })
  socket.on('drain', onWritable)
  socket.on('error', error => {
    reason = error.message
  })
  socket.on('close', () => {
    clearTimeout(patience)
    onLost(reason)
  })
  // The end of the other side is only noticed while reading.
  socket.resume()
  return socket
}

function endSocket(socket: Socket, graceMs: number): Promise<void> {
  return new Promise(resolve => {
    if (socket.closed) return resolve()
    const cut = setTimeout(() => socket.destroy(), graceMs)
    socket.once('close', () => {
      clearTimeout(cut)
      resolve()
    })
    if (socket.connecting) socket.destroy()
    else socket.end()
  })
}
