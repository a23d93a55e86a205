import { setTimeout as pause } from 'node:timers/promises'
import type { RedisConnection } from '../connection.ts'

/** A stream in Redis that is read as it grows. */
export interface FollowedStream {
  readonly key: string
  /** The id of the last entry that was taken. */
  readonly after: string
  /** False while it can take no more entries. */
  readonly wanted: boolean
  /** Called in order, once per entry. */
  take(id: string, fields: readonly Uint8Array[]): void
}

export interface ReadLoop {
  follow(stream: FollowedStream): void
  leave(stream: FollowedStream): void
  /** A stream can take entries again. */
  wake(): void
  close(): void
}

export interface ReadLoopOptions {
  /** A connection of its own: a blocking command delays the commands after it. */
  readonly connection: RedisConnection
  /** The timeout of a blocking read; shorter than that of a pending reply. */
  readonly blockMs: number
  /** Adds an entry to one of the streams that are always followed, to end a blocking read. */
  readonly interrupt: () => void
}

/**
 * The maximum number of entries of one stream per reply, so that a reply does not block the process for long.
 */
const maxEntries = 64
/**
 * Entries that arrive within this time are read together: a command that waits for a thousand streams costs
 * Redis much more than the entries.
 */
const gatherMs = 2
const retryMs = 100

type XreadReply = readonly (readonly [
  Uint8Array,
  readonly (readonly [Uint8Array, readonly Uint8Array[]])[],
])[]

/**
 * Waits for the next entries of all streams of this process with one command on one connection. Redis answers
 * as soon as any of them has grown.
 */
export function startReadLoop({ connection, blockMs, interrupt }: ReadLoopOptions): ReadLoop {
  const streams = new Map<string, FollowedStream>()
  let waiting = false
  let woken = false
  let closed = false

  function wake(): void {
    if (!waiting || woken) return
    woken = true
    interrupt()
  }

  async function readOnce(): Promise<void> {
    const wanted = [...streams.values()].filter(stream => stream.wanted)
    waiting = true
    woken = false
    const reply = await connection
      .call(
        'XREAD',
        ...['COUNT', maxEntries, 'BLOCK', blockMs, 'STREAMS'],
        ...wanted.map(stream => stream.key),
        ...wanted.map(stream => stream.after),
      )
      .finally(() => {
        waiting = false
      })
    for (const [key, entries] of (reply ?? []) as XreadReply) {
      const stream = streams.get(String(key))
      for (const [id, fields] of entries) stream?.take(String(id), fields)
    }
  }

  async function run(): Promise<void> {
    while (!closed) {
      try {
        await connection.whenReady()
        await readOnce()
        await pause(gatherMs)
      } catch {
        if (connection.ready && !closed) await pause(retryMs)
      }
    }
  }

  run()
  return {
    follow(stream) {
      streams.set(stream.key, stream)
      wake()
    },
    leave(stream) {
      if (streams.get(stream.key) === stream) streams.delete(stream.key)
    },
    wake,
    close() {
      closed = true
    },
  }
}
