import type { RequestEnd } from '../stream-log.ts'
import { type Directory, removeExpired } from './directory.ts'
import { type DirectoryEntry, decodeEntry, endedEntry } from './directory-entry.ts'
import { type EndingBroker, endRequest } from './end-request.ts'
import type { FollowedStream, ReadLoop } from './read-loop.ts'
import { directoryScript } from './scripts.ts'
import { directoryExpiryMs, type RedisLogSetup } from './setup.ts'

type Reply = readonly [horizon: Uint8Array, newest: Uint8Array, entries: readonly Uint8Array[]]

/**
 * Keeps the directory of this broker equal to the one in Redis: follows the stream of changes, and
 * periodically reads the whole directory, to repair missed changes.
 */
export class DirectorySync implements FollowedStream {
  readonly streamKey: string
  readonly wanted = true
  readonly #setup: RedisLogSetup
  readonly #directory: Directory
  readonly #loop: ReadLoop
  #after = '0-0'

  constructor(setup: RedisLogSetup, directory: Directory, loop: ReadLoop) {
    this.streamKey = setup.keys.changes
    this.#setup = setup
    this.#directory = directory
    this.#loop = loop
  }

  get after(): string {
    return this.#after
  }

  take(id: string, [key, value]: readonly Uint8Array[]): void {
    this.#after = id
    const entry = decodeEntry(String(key), String(value))
    if (entry !== undefined) this.#learn(entry)
  }

  /** Reads the whole directory, and follows later changes. Rejects if Redis does not answer. */
  async readAll(): Promise<void> {
    const { keys, commands } = this.#setup
    const names = [keys.requests, keys.epoch, keys.running, keys.changes]
    const reply = await commands.runScript(directoryScript, names, [directoryExpiryMs])
    const [horizon, newest, pairs] = reply as Reply
    this.#after = String(newest)
    const found = decodeAll(pairs)
    for (const entry of found.values()) this.#learn(entry)
    for (const { key, entry } of this.#directory.all()) {
      if (!found.has(key) && entry.epoch <= Number(String(horizon))) this.#directory.removeLost(key)
    }
    await Promise.all([...found.values()].map(entry => this.#repair(entry)))
    this.#loop.follow(this)
  }

  /** Resolves with true if this broker's end of this kind is the effective one; see `endRequest`. */
  async end(entry: DirectoryEntry, end: RequestEnd, who?: EndingBroker): Promise<boolean> {
    const answer = await endRequest(this.#setup, entry, end, who)
    if (answer === 'moved') return false
    if (answer === 'missing') {
      this.#directory.removeLost(entry.key)
      return false
    }
    this.#directory.apply(endedEntry(entry, answer, this.#setup.clock.nowMs()))
    return answer.by === this.#setup.podId && answer.end.how === end.how
  }

  #learn(entry: DirectoryEntry): void {
    // A request that begins here is added together with its producer.
    if (entry.podId !== this.#setup.podId || entry.ended !== undefined) this.#directory.apply(entry)
  }

  /** Ends a request without a producer; removes an ended one whose entries have expired in Redis. */
  async #repair(entry: DirectoryEntry): Promise<void> {
    if (entry.ended !== undefined) {
      if (this.#directory.get(entry.key) === undefined) await removeExpired(this.#setup, entry)
    } else if (entry.podId === this.#setup.podId) {
      const end = this.#directory.findUnstoredEnd(entry)
      if (end !== undefined) await this.end(entry, end)
    }
  }
}

/** Returns the entries by key, oldest first. */
function decodeAll(pairs: readonly Uint8Array[]): ReadonlyMap<string, DirectoryEntry> {
  const found: DirectoryEntry[] = []
  for (let index = 0; index < pairs.length; index += 2) {
    const entry = decodeEntry(String(pairs[index]), String(pairs[index + 1]))
    if (entry !== undefined) found.push(entry)
  }
  found.sort((a, b) => a.epoch - b.epoch)
  return new Map(found.map(entry => [entry.key, entry]))
}
