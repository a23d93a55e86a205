import type { RequestEnd } from '../../stream-log.ts'
import { endRequest } from '../producing/end-request.ts'
import type { FollowedStream } from '../reading/read-loop.ts'
import { directoryScript, forgetScript } from '../scripts.ts'
import { directoryExpiryMs, type RedisLogSetup } from '../setup.ts'
import type { Directory, KnownRequest } from './directory.ts'
import { type DirectoryEntry, decodeEntry, idsField } from './directory-entry.ts'

/**
 * Synchronizes the known requests with Redis: each change when it is reported, and periodically all of them,
 * to repair missed changes.
 */
export interface DirectorySync {
  /** The stream of changes; for the read loop, after everything was read once. */
  readonly news: FollowedStream
  /** Reads the whole directory and repairs differences. Rejects if Redis does not answer. */
  readAll(): Promise<void>
  /**
   * Ends a request for all brokers, unless it has ended; see `endRequest`. Returns whether it got this end.
   */
  end(filed: DirectoryEntry, end: RequestEnd, from?: 'owner' | 'any'): Promise<boolean>
}

export interface DirectorySyncOptions {
  readonly setup: RedisLogSetup
  readonly directory: Directory
  /**
   * The end of a request that is running according to Redis with a producer at this broker; undefined if it
   * is running.
   */
  readonly endOfOwn: (key: string) => RequestEnd | undefined
  /** Redis has lost the request. */
  readonly onVanished: (known: KnownRequest) => void
}

type Reply = readonly [horizon: Uint8Array, newest: Uint8Array, filed: readonly Uint8Array[]]

export function createDirectorySync(options: DirectorySyncOptions): DirectorySync {
  const { setup, directory, endOfOwn, onVanished } = options
  const { podId, keys, commands, clock } = setup
  let after = '0-0'

  function learn(filed: DirectoryEntry): void {
    // A request that begins at this broker is added to the directory together with its producer.
    if (filed.podId !== podId || filed.ended !== undefined) directory.learn(filed)
  }

  function vanish(known: KnownRequest): void {
    directory.forget(known.filed.key)
    onVanished(known)
  }

  async function endFor(filed: DirectoryEntry, wanted: RequestEnd, from?: 'owner' | 'any'): Promise<boolean> {
    const answer = await endRequest(setup, filed, wanted, from)
    if (answer.what === 'moved') return false
    if (answer.what === 'gone') {
      const known = directory.get(filed.key)
      if (known !== undefined) vanish(known)
      return false
    }
    const { end, by } = answer
    directory.learn({ ...filed, ended: { end, by, atMs: clock.nowMs() } })
    return by === podId && end.how === wanted.how
  }

  /** Ends a request of a producer of this broker that is running only according to Redis. */
  async function endIfOver(filed: DirectoryEntry): Promise<void> {
    if (filed.podId !== podId || filed.ended !== undefined) return
    const how = endOfOwn(filed.key)
    if (how !== undefined) await endFor(filed, how)
  }

  /** Removes an expired request from the directory. */
  async function forgetIfExpired({ key, ids, ended }: DirectoryEntry): Promise<void> {
    if (ended === undefined || directory.get(key) !== undefined) return
    const names = [keys.entries(key), keys.requests, keys.running]
    await commands.call('EVAL', forgetScript, names.length, ...names, idsField(ids), key)
  }

  return {
    news: {
      key: keys.news,
      get after() {
        return after
      },
      wanted: true,
      take(id, fields) {
        after = id
        const filed = decodeEntry(String(fields[0]), String(fields[1]))
        if (filed !== undefined) learn(filed)
      },
    },
    async readAll() {
      const names = [keys.requests, keys.epoch, keys.running, keys.news]
      const reply = await commands.call('EVAL', directoryScript, names.length, ...names, directoryExpiryMs)
      const [horizon, newest, pairs] = reply as Reply
      after = String(newest)
      const found = decodeAll(pairs)
      for (const filed of found.values()) learn(filed)
      for (const known of directory.all()) {
        if (!found.has(known.filed.key) && known.filed.epoch <= Number(String(horizon))) vanish(known)
      }
      await Promise.all([...found.values()].flatMap(filed => [endIfOver(filed), forgetIfExpired(filed)]))
    },
    end: endFor,
  }
}

/** By their keys, oldest first. */
function decodeAll(pairs: readonly Uint8Array[]): ReadonlyMap<string, DirectoryEntry> {
  const found: DirectoryEntry[] = []
  for (let index = 0; index < pairs.length; index += 2) {
    const filed = decodeEntry(String(pairs[index]), String(pairs[index + 1]))
    if (filed !== undefined) found.push(filed)
  }
  found.sort((a, b) => a.epoch - b.epoch)
  return new Map(found.map(filed => [filed.key, filed]))
}
