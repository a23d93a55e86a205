import { createConnection, type Socket } from 'node:net'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { StatCounter } from '../stats.ts'
import type { Packet } from './statsd-lines.ts'

/**
 * Sends packets of lines. It connects, and reconnects after a loss. Only `close` waits, and no method throws.
 * The buffered bytes are bounded: `writable` returns false while too many wait.
 */
export interface StatsTransport {
  readonly packetBytes: number
  /** Returns whether a packet may be written now. `onWritable` is called when it becomes writable again. */
  writable(): boolean
  /** Sends a packet; only while writable. Lines that were lost with the connection are added to `dropped`. */
  write(packet: Packet): void
  /** Resolves when everything is sent, or after `graceMs`; the rest is dropped then. */
  close(graceMs: number): Promise<void>
}

export interface StatsTransportOptions {
  readonly host: string
  readonly port: number
  readonly dropped: StatCounter
  readonly log: Log
  /** Returns a random number, uniform in [0, 1), which spreads the attempts to connect. */
  readonly random: () => number
  readonly onWritable: () => void
}

const waits = { initialMs: 500, maxMs: 10_000, factor: 2, jitter: 0.5 } as const
/**
 * A receiver counts as back if no loss follows a packet within this time: a rejection takes some milliseconds
 * to arrive.
 */
const settledMs = 300

/**
 * Calls `connect` after each loss, with growing delays. Logs the begin and the end of an outage, each once.
 */
export class Reconnect {
  readonly #options: StatsTransportOptions
  readonly #connect: () => void
  readonly #backoff: Backoff
  #away = false
  #retry: NodeJS.Timeout | undefined
  #settled: NodeJS.Timeout | undefined

  constructor(options: StatsTransportOptions, connect: () => void) {
    this.#options = options
    this.#connect = connect
    this.#backoff = createBackoff({ ...waits, random: options.random })
  }

  /** Records that the connection is lost, or could not be established: `connect` is called after a delay. */
  lost(reason: string): void {
    this.stop()
    const { host, port, log } = this.#options
    if (!this.#away) log.warn('send statistics failed', { host, port, reason })
    this.#away = true
    this.#retry = setTimeout(this.#connect, this.#backoff.nextMs())
  }

  /** Records a sent packet. If no loss follows within `settledMs`, the receiver is considered back. */
  sent(): void {
    if (this.#away) this.#settled ??= setTimeout(() => this.#resume(), settledMs)
  }

  stop(): void {
    clearTimeout(this.#retry)
    clearTimeout(this.#settled)
    this.#settled = undefined
  }

  #resume(): void {
    const { host, port, log } = this.#options
    this.#away = false
    this.#settled = undefined
    this.#backoff.reset()
    log.info('resume sending statistics', { host, port })
  }
}

const packetBytes = 16 * 1024
/** The timeout for a connection that is never established, such as one to an unused address. */
const connectTimeoutMs = 1500
/** A connection whose receiver takes no bytes for this time, while bytes wait for it, is closed. */
const stallTimeoutMs = 10_000

/**
 * Sends packets over one TCP connection. The transport is not writable while more than the 64 KiB of the
 * socket's buffer wait, so that a receiver that does not read costs no more memory than that.
 */
export function openTcpTransport(options: StatsTransportOptions): StatsTransport {
  const { dropped } = options
  let closing = false
  const connect = () =>
    openSocket(options, reason => {
      if (!closing) reconnect.lost(reason)
    })
  const reconnect: Reconnect = new Reconnect(options, () => {
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

function openSocket(options: StatsTransportOptions, onLost: (reason: string) => void): Socket {
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
  // Data of the receiver is discarded. Only a socket that reads notices that the receiver has closed the
  // connection.
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
