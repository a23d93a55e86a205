import { createSocket, type Socket } from 'node:dgram'
import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import type { Packet } from './statsd-lines.ts'
import { Reconnect, type StatsTransport, type StatsTransportOptions } from './transport.ts'

/** The payload of an Ethernet frame of 1500 bytes, after the largest headers. */
const packetBytes = 1432
const maxQueuedBytes = 64 * 1024
/**
 * The receiver's name is resolved again after this time, since a sender of datagrams does not notice that the
 * address has changed.
 */
const maxSocketAgeMs = 60_000

interface UdpTransportOptions extends StatsTransportOptions {
  /** Resolves with the addresses of the host. If left out, the system resolves the host. */
  readonly resolve?: (host: string) => Promise<readonly LookupAddress[]>
}

/** Sends datagrams, which may be lost; the system reports a missing receiver on this machine. */
export class UdpTransport implements StatsTransport {
  readonly packetBytes = packetBytes
  readonly #options: UdpTransportOptions
  readonly #reconnect: Reconnect
  #socket: Socket | undefined
  #age: NodeJS.Timeout | undefined
  /** The number of packets that the system has not taken yet. */
  #sending = 0
  /** Each loss selects the host's next address, as a receiver may listen at only some of them. */
  #losses = 0
  #lastLines = 0
  #closing = false
  #onAllSent = () => {}

  constructor(options: UdpTransportOptions) {
    this.#options = options
    this.#reconnect = new Reconnect(options, () => this.#open())
    this.#open()
  }

  writable(): boolean {
    return !this.#closing && this.#socket !== undefined && this.#socket.getSendQueueSize() < maxQueuedBytes
  }

  write({ text, lines }: Packet): void {
    const from = this.#socket
    this.#sending += 1
    this.#lastLines = lines
    from?.send(text, error => {
      this.#sending -= 1
      if (error) this.#lose(from, lines, error)
      else this.#reconnect.sent()
      if (this.#sending > 0) return
      this.#onAllSent()
      this.#options.onWritable()
    })
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true
    this.#reconnect.stop()
    if (this.#sending > 0) await this.#allSent(graceMs)
    this.#replace(undefined)
  }

  #allSent(graceMs: number): Promise<void> {
    return new Promise(resolve => {
      const cut = setTimeout(resolve, graceMs)
      this.#onAllSent = () => {
        clearTimeout(cut)
        resolve()
      }
    })
  }

  #open(): void {
    openSocket(this.#options, this.#losses).then(
      socket => this.#use(socket),
      (error: Error) => this.#onFailedOpen(error),
    )
  }

  #use(socket: Socket): void {
    if (this.#closing) {
      socket.close()
      return
    }
    // The error belongs to a packet that was sent before: at least the last one did not arrive.
    socket.on('error', error => this.#lose(socket, socket === this.#socket ? this.#lastLines : 0, error))
    this.#replace(socket)
    this.#openLater()
    this.#options.onWritable()
  }

  #onFailedOpen(error: Error): void {
    if (this.#closing) return
    // If a lookup fails, the address in use is kept.
    if (this.#socket === undefined) this.#reconnect.lost(error.message)
    else this.#openLater()
  }

  #openLater(): void {
    this.#age = setTimeout(() => this.#open(), maxSocketAgeMs)
  }

  #lose(from: Socket, lines: number, error: Error): void {
    this.#options.dropped.value += lines
    if (this.#closing || from !== this.#socket) return
    this.#replace(undefined)
    this.#losses += 1
    this.#reconnect.lost(error.message)
  }

  #replace(next: Socket | undefined): void {
    clearTimeout(this.#age)
    this.#socket?.close()
    this.#socket = next
  }
}

const resolveAll = (host: string) => lookup(host, { all: true })

/** Opens a connected socket: only such a socket gets an error when the port has no listener. */
async function openSocket(
  { host, port, resolve: find }: UdpTransportOptions,
  losses: number,
): Promise<Socket> {
  const addresses = await (find ?? resolveAll)(host)
  const { address, family } = addresses[losses % addresses.length] ?? { address: host, family: 4 }
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
