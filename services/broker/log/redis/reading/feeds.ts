import type { Ring, RingWatch } from '../../ring.ts'
import { LogRefusal, type RequestEnd, type RingCursor, type RingReader } from '../../stream-log.ts'
import type { DirectoryEntry } from '../directory/directory-entry.ts'
import type { StoredEnd } from '../producing/end-request.ts'
import type { RedisLogSetup } from '../setup.ts'
import { catchUp, createFeed, type Feed, type FeedOptions, loadFeed } from './feed.ts'
import type { ReadLoop } from './read-loop.ts'

/** The requests of other brokers with local readers. A feed exists while it has readers. */
export interface Feeds {
  /** Rejects with a `LogRefusal` as `LoggedRequest.read` does. */
  read(filed: DirectoryEntry, reader: RingReader): Promise<RingCursor>
  /** The directory reports the end of the request; its last entries may still be on their way. */
  ended(key: string): void
  /** Redis will provide no more entries: readers of the request get this end. */
  close(key: string, end: RequestEnd): void
  closeAll(end: RequestEnd): void
  /** Keeps the rings within the budget. */
  sweep(): void
  /** The request has another owner. */
  moved(filed: DirectoryEntry): void
  /** The producer has left this broker: the ring is filled from Redis from now on. */
  adopt(filed: DirectoryEntry, ring: Ring): void
  /**
   * Returns the ring of a request with all entries from Redis, for a producer that continues at this broker:
   * it is no longer a feed. Rejects as `read` does.
   */
  handOver<T>(filed: DirectoryEntry, take: (ring: Ring) => T): Promise<T>
  /** Drops the request; its readers can read it to its end. */
  forget(key: string): void
  /**
   * The position of the slowest reader of each running request: the producer's broker keeps its entries from
   * there on.
   */
  slowest(): readonly SlowestReader[]
}

export interface SlowestReader {
  readonly filed: DirectoryEntry
  readonly position: number
}

export interface FeedsOptions {
  readonly setup: RedisLogSetup
  readonly loop: ReadLoop
  /** All entries and the end of the request were read; the directory may report the end later. */
  readonly onEnd: (filed: DirectoryEntry, stored: StoredEnd) => void
  /** `slowest` has changed enough for a report. */
  readonly onProgress: () => void
  /** No reader holds entries of the request any more. */
  readonly onLeft: (filed: DirectoryEntry) => void
}

interface UsedFeed {
  filed: DirectoryEntry
  readonly loading: Promise<Feed>
  /** Set after it was loaded. */
  feed: Feed | undefined
  /** The number of readers that wait for the load, and of those that will hold entries. */
  expected: number
  expectedHolders: number
}

const gone = () => new LogRefusal('gone', 'no message of the request is kept any more')

/** After this share of the limit of a request was read, a report to its producer's broker is due. */
const progressShare = 1 / 4

export function createFeeds({ setup, loop, onEnd, onProgress, onLeft }: FeedsOptions): Feeds {
  const feeds = new Map<string, UsedFeed>()

  function begin(filed: DirectoryEntry, open: (options: FeedOptions) => Promise<Feed>): UsedFeed {
    const watch: RingWatch = {
      worthBytes: filed.limits.bytes * progressShare,
      onProgress: () => changed(used),
      onClosed: () => left(used),
    }
    const loading = open({ onEnd: stored => onEnd(used.filed, stored), watch })
    const used: UsedFeed = { filed, loading, feed: undefined, expected: 0, expectedHolders: 0 }
    feeds.set(filed.key, used)
    return used
  }

  const find = (filed: DirectoryEntry) =>
    feeds.get(filed.key) ?? begin(filed, options => loadFeed(setup, filed, options))

  /** Runs after the feed was loaded, and keeps it until then. */
  async function use<T>(used: UsedFeed, holders: number, work: (feed: Feed) => T | Promise<T>): Promise<T> {
    used.expected += 1
    used.expectedHolders += holders
    changed(used)
    try {
      return await work(await load(used))
    } catch (error) {
      if (error instanceof LogRefusal) throw error
      throw new LogRefusal('unavailable', 'the log cannot be read')
    } finally {
      used.expected -= 1
      used.expectedHolders -= holders
      left(used)
    }
  }

  async function load(used: UsedFeed): Promise<Feed> {
    const feed = await used.loading
    if (feeds.get(used.filed.key) !== used) throw gone()
    if (used.feed === undefined) start(used, feed)
    return feed
  }

  function start(used: UsedFeed, feed: Feed): void {
    used.feed = feed
    feed.ring.onRoom(loop.wake)
    loop.follow(feed.stream)
  }

  /** The position of the slowest reader that holds entries; undefined if there is none, and after the end. */
  function positionOf({ feed, expectedHolders }: UsedFeed): number | undefined {
    if (feed?.ring.end !== undefined) return undefined
    return expectedHolders > 0 ? 0 : feed?.ring.slowestPosition
  }

  function changed(used: UsedFeed): void {
    if (positionOf(used) !== undefined) onProgress()
  }

  function left(used: UsedFeed): void {
    if (used.expected === 0 && (used.feed?.ring.cursors ?? 0) === 0) drop(used)
    if (positionOf(used) === undefined) onLeft(used.filed)
    else onProgress()
  }

  function drop(used: UsedFeed): void {
    if (used.feed !== undefined) {
      loop.leave(used.feed.stream)
      used.feed.ring.release()
    }
    if (feeds.get(used.filed.key) === used) feeds.delete(used.filed.key)
  }

  function close(used: UsedFeed, end: RequestEnd): void {
    used.feed?.ring.finish(end)
    drop(used)
  }

  return {
    read: (filed, reader) =>
      use(find(filed), reader.waiting === true ? 0 : 1, ({ ring }) => ring.read(reader)),
    moved(filed) {
      const used = feeds.get(filed.key)
      if (used !== undefined) used.filed = filed
    },
    adopt(filed, ring) {
      if (ring.cursors === 0) return ring.release()
      const used = begin(filed, async ({ onEnd, watch }) => {
        ring.watch(watch)
        return createFeed(setup, filed, ring, onEnd)
      })
      used.loading.then(feed => {
        if (feeds.get(filed.key) === used && used.feed === undefined) start(used, feed)
      })
    },
    async handOver(filed, take) {
      const used = find(filed)
      return await use(used, 0, async feed => {
        await catchUp(setup, feed)
        feed.ring.watch(undefined)
        loop.leave(feed.stream)
        used.feed = undefined
        if (feeds.get(filed.key) === used) feeds.delete(filed.key)
        return take(feed.ring)
      })
    },
    ended(key) {
      const feed = feeds.get(key)?.feed
      if (feed === undefined || feed.stream.wanted || feed.ring.end !== undefined) return
      feed.forceShutdown()
      loop.wake()
    },
    close(key, end) {
      const used = feeds.get(key)
      if (used !== undefined) close(used, end)
    },
    sweep() {
      for (const { feed } of feeds.values()) feed?.ring.sweep()
    },
    closeAll(end) {
      for (const used of [...feeds.values()]) close(used, end)
    },
    forget: key => feeds.get(key)?.feed?.ring.release(),
    slowest() {
      const found: SlowestReader[] = []
      for (const used of feeds.values()) {
        const position = positionOf(used)
        if (position !== undefined) found.push({ filed: used.filed, position })
      }
      return found
    },
  }
}
