import { LogRefusal, type RequestEnd, type RingCursor, type RingReader } from '../stream-log.ts'
import { CountedCursor } from './counted-cursor.ts'
import { type Feed, loadFeed } from './feed.ts'
import type { FiledRequest } from './filed-request.ts'
import type { ReadLoop } from './read-loop.ts'
import type { RedisLogSetup } from './setup.ts'

/** The requests of other brokers that are read here. A feed is there as long as somebody reads it. */
export interface Feeds {
  /** Rejects with a `LogRefusal` as `LoggedRequest.read` does. */
  read(filed: FiledRequest, reader: RingReader): Promise<RingCursor>
  /** The request has ended, as the directory tells; its last entries may still be on their way. */
  ended(key: string): void
  /** Nothing more will come from Redis: who still reads the request gets this end. */
  giveUp(key: string, end: RequestEnd): void
  giveUpAll(end: RequestEnd): void
  /** Where the readers are, of each request whose producer waits for them. */
  slowest(): readonly SlowestReader[]
}

export interface SlowestReader {
  readonly filed: FiledRequest
  readonly position: number
}

export interface FeedsOptions {
  readonly setup: RedisLogSetup
  readonly loop: ReadLoop
  /** All of the request was read, and how it ended; the directory may tell later. */
  readonly onEnd: (filed: FiledRequest, end: RequestEnd) => void
  /** For requests whose producer waits: there are readers, they have read a good deal, or one has left. */
  readonly onProgress: () => void
  /** The last reader has left. */
  readonly onLeft: (filed: FiledRequest) => void
}

interface UsedFeed {
  readonly filed: FiledRequest
  readonly loading: Promise<Feed>
  /** Once it is loaded. */
  feed: Feed | undefined
  readers: number
}

const gone = () => new LogRefusal('gone', 'nothing of the request is kept any more')

/** A producer that waits is told as soon as a reader has read this share of what the request may hold. */
const progressShare = 1 / 4

export function createFeeds({ setup, loop, onEnd, onProgress, onLeft }: FeedsOptions): Feeds {
  const feeds = new Map<string, UsedFeed>()
  const waits = ({ filed, feed }: UsedFeed) =>
    filed.limits.whenFull === 'wait' && feed?.ring.end === undefined

  function begin(filed: FiledRequest): UsedFeed {
    const loading = loadFeed(setup, filed, end => onEnd(filed, end))
    const used: UsedFeed = { filed, loading, feed: undefined, readers: 0 }
    feeds.set(filed.key, used)
    return used
  }

  async function load(used: UsedFeed): Promise<Feed> {
    const feed = await used.loading
    if (feeds.get(used.filed.key) !== used) throw gone()
    if (used.feed === undefined) {
      used.feed = feed
      feed.ring.onRoom(loop.wake)
      loop.follow(feed.stream)
    }
    return feed
  }

  function leave(used: UsedFeed): void {
    used.readers -= 1
    if (used.readers === 0) drop(used)
    if (!waits(used)) return
    if (used.readers > 0) onProgress()
    else onLeft(used.filed)
  }

  function drop(used: UsedFeed): void {
    if (used.feed !== undefined) loop.leave(used.feed.stream)
    if (feeds.get(used.filed.key) === used) feeds.delete(used.filed.key)
  }

  /** Counts what is read, for the producer that waits. */
  function counted(cursor: RingCursor, used: UsedFeed): RingCursor {
    return new CountedCursor(cursor, {
      worthBytes: used.filed.limits.bytes * progressShare,
      onProgress() {
        if (waits(used)) onProgress()
      },
      onClose: () => leave(used),
    })
  }

  function giveUp(used: UsedFeed, end: RequestEnd): void {
    used.feed?.ring.finish(end)
    drop(used)
  }

  return {
    async read(filed, reader) {
      const used = feeds.get(filed.key) ?? begin(filed)
      used.readers += 1
      if (waits(used)) onProgress()
      try {
        const feed = await load(used)
        return counted(feed.ring.read(reader), used)
      } catch (error) {
        leave(used)
        if (error instanceof LogRefusal) throw error
        throw new LogRefusal('unavailable', 'the log cannot be read')
      }
    },
    ended(key) {
      const feed = feeds.get(key)?.feed
      if (feed === undefined || feed.stream.wanted || feed.ring.end !== undefined) return
      feed.hurry()
      loop.wake()
    },
    giveUp(key, end) {
      const used = feeds.get(key)
      if (used !== undefined) giveUp(used, end)
    },
    giveUpAll(end) {
      for (const used of [...feeds.values()]) giveUp(used, end)
    },
    slowest() {
      const found: SlowestReader[] = []
      for (const used of feeds.values()) {
        if (!waits(used)) continue
        found.push({ filed: used.filed, position: used.feed?.ring.slowestPosition ?? 0 })
      }
      return found
    },
  }
}
