import { setTimeout as pause } from 'node:timers/promises'
import type { RedisConnection } from './connection.ts'
import type { RedisLogSetup } from './setup.ts'

/** A stream in Redis that is read as it grows. */
export interface FollowedStream {
  readonly streamKey: string
  /** Reading continues after the entry with this id. */
  readonly after: string
  /** False while no more entries can be taken. */
  readonly wanted: boolean
  /** Called once for each entry, in order. */
  take(id: string, fields: readonly Uint8Array[]): void
}

/** Entries in the form in which XREAD and XRANGE return them. */
export type StreamEntries = readonly (readonly [id: Uint8Array, fields: readonly Uint8Array[]])[]

type XreadReply = readonly (readonly [streamKey: Uint8Array, entries: StreamEntries])[]

/** The limit of entries of one stream in a reply, so that it does not block the process for long. */
const maxEntries = 64
/**
 * Entries that arrive within this time after a read are read together: a command that waits for a thousand
 * streams costs Redis much more than the entries.
 */
const gatherMs = 2
const retryMs = 100
/** The share of `stallMs`, the timeout of a pending reply, for which a read blocks. */
const blockShare = 1 / 2

/** Reads all followed streams with one blocking command, which Redis answers as soon as any has grown. */
export class ReadLoop {
  readonly #setup: RedisLogSetup
  /** A connection for this loop alone, because a blocking command delays the commands after it. */
  readonly #connection: RedisConnection
  readonly #streams = new Map<string, FollowedStream>()
  #waiting = false
  #interrupted = false
  #closed = false

  constructor(setup: RedisLogSetup, connection: RedisConnection) {
    this.#setup = setup
    this.#connection = connection
    void this.#run()
  }

  follow(stream: FollowedStream): void {
    this.#streams.set(stream.streamKey, stream)
    this.interrupt()
  }

  unfollow(stream: FollowedStream): void {
    if (this.#streams.get(stream.streamKey) === stream) this.#streams.delete(stream.streamKey)
  }

  /**
   * Ends a blocking read, so that the next one includes a stream that can take entries again: adds an empty
   * message to the inbox of this broker, which is always followed. If the message is lost, the read ends
   * later by its timeout.
   */
  interrupt(): void {
    if (!this.#waiting || this.#interrupted) return
    this.#interrupted = true
    const { commands, keys, podId } = this.#setup
    const inbox = ['XADD', keys.inbox(podId), 'NOMKSTREAM', 'MAXLEN', '~', 1000, '*'] as const
    commands.call(...inbox, '', '').catch(() => {})
  }

  close(): void {
    this.#closed = true
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#connection.whenReady()
        await this.#readOnce()
        await pause(gatherMs)
      } catch {
        if (this.#connection.ready && !this.#closed) await pause(retryMs)
      }
    }
  }

  async #readOnce(): Promise<void> {
    const wanted = [...this.#streams.values()].filter(stream => stream.wanted)
    const blockMs = Math.round(this.#setup.timings.stallMs * blockShare)
    this.#waiting = true
    this.#interrupted = false
    const reply = await this.#connection
      .call(
        'XREAD',
        ...['COUNT', maxEntries, 'BLOCK', blockMs, 'STREAMS'],
        ...wanted.map(({ streamKey }) => streamKey),
        ...wanted.map(({ after }) => after),
      )
      .finally(() => {
        this.#waiting = false
      })
    for (const [key, entries] of (reply ?? []) as XreadReply) takeAll(this.#streams.get(String(key)), entries)
  }
}

export function takeAll(stream: FollowedStream | undefined, entries: StreamEntries): void {
  for (const [id, fields] of entries) stream?.take(String(id), fields)
}
