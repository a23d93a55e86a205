import type { RequestEnd } from '../stream-log.ts'
import type { Directory, KnownRequest } from './directory.ts'
import { endRequest } from './end-request.ts'
import { decodeFiled, type FiledRequest, idsField } from './filed-request.ts'
import type { FollowedStream } from './read-loop.ts'
import { directoryScript, forgetScript } from './scripts.ts'
import { directoryExpiryMs, type RedisLogSetup } from './setup.ts'

/**
 * Keeps what this broker knows of requests at what Redis says: each change as it is told, and now and then
 * all of it, so that nothing that was missed is missed for long.
 */
export interface DirectorySync {
  /** What is told of changes; for the read loop, once all was read for the first time. */
  readonly news: FollowedStream
  /** Reads all, and puts right what is not as it should be. Rejects when Redis does not answer. */
  readAll(): Promise<void>
  /**
   * Ends a request for all brokers, unless it has an end; see `endRequest`. Answers whether it got this end.
   */
  end(filed: FiledRequest, end: RequestEnd, from?: 'owner' | 'any'): Promise<boolean>
}

export interface DirectorySyncOptions {
  readonly setup: RedisLogSetup
  readonly directory: Directory
  /**
   * How a request ends that Redis holds to be running, with a producer that is here; undefined when it does
   * run.
   */
  readonly endOfOwn: (key: string) => RequestEnd | undefined
  /** Redis holds nothing of the request any more. */
  readonly onVanished: (known: KnownRequest) => void
}

type Reply = readonly [horizon: Uint8Array, newest: Uint8Array, filed: readonly Uint8Array[]]

export function createDirectorySync(options: DirectorySyncOptions): DirectorySync {
  const { setup, directory, endOfOwn, onVanished } = options
  const { podId, keys, commands, clock } = setup
  let after = '0-0'

  function learn(filed: FiledRequest): void {
    // Of a request that begins here the directory is told together with its producer.
    if (filed.podId !== podId || filed.ended !== undefined) directory.learn(filed)
  }

  function vanish(known: KnownRequest): void {
    directory.forget(known.filed.key)
    onVanished(known)
  }

  async function end(filed: FiledRequest, how: RequestEnd, from?: 'owner' | 'any'): Promise<boolean> {
    const answer = await endRequest(setup, filed, how, from)
    if (answer.what === 'moved') return false
    if (answer.what === 'gone') {
      const known = directory.get(filed.key)
      if (known !== undefined) vanish(known)
      return false
    }
    directory.learn({ ...filed, ended: { end: answer.by, atMs: clock.nowMs() } })
    return answer.what === 'ended'
  }

  /** A request of a producer of this broker that Redis holds to be running, though it is not. */
  async function endIfOver(filed: FiledRequest): Promise<void> {
    if (filed.podId !== podId || filed.ended !== undefined) return
    const how = endOfOwn(filed.key)
    if (how !== undefined) await end(filed, how)
  }

  /** What has expired leaves the directory. */
  async function forgetIfExpired({ key, ids, ended }: FiledRequest): Promise<void> {
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
        const filed = decodeFiled(String(fields[0]), String(fields[1]))
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
    end,
  }
}

/** By their keys, oldest first. */
function decodeAll(pairs: readonly Uint8Array[]): ReadonlyMap<string, FiledRequest> {
  const found: FiledRequest[] = []
  for (let index = 0; index < pairs.length; index += 2) {
    const filed = decodeFiled(String(pairs[index]), String(pairs[index + 1]))
    if (filed !== undefined) found.push(filed)
  }
  found.sort((a, b) => a.epoch - b.epoch)
  return new Map(found.map(filed => [filed.key, filed]))
}
