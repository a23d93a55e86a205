import { createSocket, type Socket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { createReconnect, type Transport, type TransportOptions } from './transport.ts'

/** The payload of an Ethernet frame of 1500 bytes, after the largest headers. */
const packetBytes = 1432
const maxQueuedBytes = 64 * 1024
/** The receiver's name may resolve to another address later, which a sender of datagrams does not notice. */
const maxSocketAgeMs = 60_000

/**
 * Sends packets as datagrams. A sent datagram may not have been received; the system reports a missing
 * receiver on this machine.
 */
export function openUdpTransport(options: TransportOptions): Transport {
  const { dropped, onWritable } = options
  let socket: Socket | undefined
  let age: NodeJS.Timeout | undefined
  let sending = 0
  let lastLines = 0
  let closing = false
  let onSent = () => {}

  const replace = (next: Socket | undefined) => {
    clearTimeout(age)
    socket?.close()
    socket = next
  }
  const lose = (from: Socket | undefined, reason: string) => {
    if (closing || from !== socket) return
    replace(undefined)
    reconnect.lost(reason)
  }
  const take = (next: Socket) => {
    if (closing) return void next.close()
    next.on('error', error => {
      // The error is about an earlier packet: at least the last packet did not arrive.
      if (next === socket) dropped.value += lastLines
      lose(next, error.message)
    })
    replace(next)
    age = setTimeout(open, maxSocketAgeMs)
    onWritable()
  }
  const fail = (error: Error) => {
    if (closing) return
    // A failed lookup is no reason to drop the address in use.
    if (socket === undefined) reconnect.lost(error.message)
    else age = setTimeout(open, maxSocketAgeMs)
  }
  const open = () => {
    openSocket(options).then(take, fail)
  }
  const reconnect = createReconnect(options, open)
  open()
  return {
    packetBytes,
    writable: () => !closing && socket !== undefined && socket.getSendQueueSize() < maxQueuedBytes,
    write({ text, lines }) {
      const from = socket
      sending += 1
      lastLines = lines
      from?.send(text, error => {
        sending -= 1
        if (error) {
          dropped.value += lines
          lose(from, error.message)
        } else {
          reconnect.sent()
        }
        if (sending > 0) return
        onSent()
        onWritable()
      })
    },
    async close(graceMs) {
      closing = true
      reconnect.stop()
      if (sending > 0) {
        await new Promise<void>(resolve => {
          const cut = setTimeout(resolve, graceMs)
          onSent = () => {
            clearTimeout(cut)
            resolve()
          }
        })
      }
      replace(undefined)
    },
  }
}

/** Opens a connected socket: only such a socket gets an error when the port has no listener. */
async function openSocket({ host, port }: TransportOptions): Promise<Socket> {
  const { address, family } = await lookup(host)
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
  return new Promise((resolve, reject) => {
    socket.once('error', error => {
      socket.close()
      reject(error)
    })
    socket.connect(port, address, () => {
      socket.removeAllListeners('error')
      resolve(socket)
    })
  })
}
