import { setTimeout as pause } from 'node:timers/promises'
import type { RedisConnection } from './connection.ts'

/** A stream in Redis that is read as it grows. */
export interface FollowedStream {
  readonly key: string
  /** The id of the last entry that was taken. */
  readonly after: string
  /** False while nothing more can be taken. */
  readonly wanted: boolean
  /** In order, each once. */
  take(id: string, fields: readonly Uint8Array[]): void
}

export interface ReadLoop {
  follow(stream: FollowedStream): void
  leave(stream: FollowedStream): void
  /** A stream is wanted that was not. */
  wake(): void
  close(): void
}

export interface ReadLoopOptions {
  /** Its own: a blocking command holds up whatever comes behind it. */
  readonly connection: RedisConnection
  /** Redis says so often that nothing has come; less than a connection may owe a reply. */
  readonly blockMs: number
  /** Brings about that one of the streams that are always followed grows, so that the waiting ends. */
  readonly interrupt: () => void
}

/** Of one stream at once. A reply should not hold the process for long. */
const maxEntries = 64
/**
 * What grows within so long is read together: a command that waits for a thousand streams costs Redis much
 * more than the entries that it brings.
 */
const gatherMs = 2
const retryMs = 100

type XreadReply = readonly (readonly [
  Uint8Array,
  readonly (readonly [Uint8Array, readonly Uint8Array[]])[],
])[]

/**
 * Waits for the next entries of all streams of this process with one command on one connection, which Redis
 * answers as soon as any of them has grown.
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
