import { createSocket, type Socket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { createReconnect, type Transport, type TransportOptions } from './transport.ts'

/** What fits into an Ethernet frame of 1500 bytes after the headers that there may be. */
const packetBytes = 1432
const maxQueuedBytes = 64 * 1024
/** A receiver's name may come to mean another address, which nothing tells a sender of datagrams. */
const maxSocketAgeMs = 60_000

/**
 * Packets as datagrams. That one has left does not say that it was received; a receiver on this machine that is
 * away is noticed by the answer of the system.
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
      // It comes after what it is about had left: at least the last packet did not arrive.
      if (next === socket) dropped.value += lastLines
      lose(next, error.message)
    })
    replace(next)
    age = setTimeout(open, maxSocketAgeMs)
    onWritable()
  }
  const fail = (error: Error) => {
    if (closing) return
    // A name that is not found for once is no reason to leave what it stood for until now.
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

/** A connected socket: only such a one is told that nobody listens. */
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
