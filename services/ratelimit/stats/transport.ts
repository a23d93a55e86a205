import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log.ts'
import type { Counter } from './stats.ts'
import type { Packet } from './statsd-lines.ts'

/**
 * Where packets of lines go. It connects by itself, and again after a loss; it never waits, never throws, and
 * holds a bounded number of bytes, because it says when it takes no more.
 */
export interface Transport {
  /** The largest packet in bytes. */
  readonly packetBytes: number
  /** Whether a packet may be written now. When it may again, `onWritable` is called. */
  writable(): boolean
  /** Only while it is writable. Lines that were lost with the connection are added to `dropped`. */
  write(packet: Packet): void
  /** Resolves when everything has left, or after `graceMs`; what is left by then is dropped. */
  close(graceMs: number): Promise<void>
}

export interface TransportOptions {
  readonly host: string
  readonly port: number
  /** Counts lines. */
  readonly dropped: Counter
  readonly log: Log
  /** Uniform in [0, 1): spreads the tries to connect. */
  readonly random: () => number
  readonly onWritable: () => void
}

/** The waits between tries to connect. */
const waits = { initialMs: 500, maxMs: 10_000, factor: 2, jitter: 0.5 } as const
/** What has left may still be refused, which is noticed a little later. */
const settledMs = 300

export interface Reconnect {
  /** The connection is lost, or did not come about: it is tried again after a while. */
  lost(reason: string): void
  /** Something has left. When nothing is lost for a while after that, all is well again. */
  sent(): void
  stop(): void
}

/** Calls `connect` after each loss, in waits that grow, and tells once of a loss and once of its end. */
export function createReconnect(
  { host, port, log, random }: TransportOptions,
  connect: () => void,
): Reconnect {
  const backoff = createBackoff({ ...waits, random })
  let away = false
  let retry: NodeJS.Timeout | undefined
  let settled: NodeJS.Timeout | undefined
  const stop = () => {
    clearTimeout(retry)
    clearTimeout(settled)
    settled = undefined
  }
  return {
    lost(reason) {
      stop()
      if (!away) log.warn('statistics are not received; they are kept until they are', { host, port, reason })
      away = true
      retry = setTimeout(connect, backoff.nextMs())
    },
    sent() {
      if (!away) return
      settled ??= setTimeout(() => {
        away = false
        settled = undefined
        backoff.reset()
        log.info('statistics are received again', { host, port })
      }, settledMs)
    },
    stop,
  }
}
