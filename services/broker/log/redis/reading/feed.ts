import { Ring, type RingWatch } from '../../ring.ts'
import { LogRefusal } from '../../stream-log.ts'
import type { DirectoryEntry } from '../directory/directory-entry.ts'
import { entryId, positionOf } from '../keys.ts'
import { decodeEnd, type StoredEnd } from '../producing/end-request.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { FollowedStream } from './read-loop.ts'

/** A request of another broker in a local ring, filled from Redis. */
export interface Feed {
  readonly filed: DirectoryEntry
  readonly ring: Ring
  /** For the read loop, which continues at the position of the initial load. */
  readonly stream: FollowedStream
  /**
   * The request has ended, and Redis will forget it: reads the remaining entries at once, even for slow
   * readers.
   */
  forceShutdown(): void
}

export interface FeedOptions {
  /** Called once, when the end is read from Redis. */
  readonly onEnd: (stored: StoredEnd) => void
  readonly watch: RingWatch
}

/** The maximum number of entries in one reply. */
const loadEntries = 256

type Entries = readonly (readonly [Uint8Array, readonly Uint8Array[]])[]

/**
 * Loads the stored entries of a request into a ring.
 *
 * Rejects with a `LogRefusal` `gone` if Redis stores none of them, and with another error if Redis does not
 * answer.
 */
export async function loadFeed(
  setup: RedisLogSetup,
  filed: DirectoryEntry,
  { onEnd, watch }: FeedOptions,
): Promise<Feed> {
  const { keys, commands } = setup
  const { key, epoch } = filed
  const beginning = entriesAfter(setup, key, entryId(epoch, 0))
  const [header, entries] = await Promise.all([commands.call('GET', keys.header(key)), beginning])
  if (!(header instanceof Uint8Array)) {
    throw new LogRefusal('gone', 'no message of the request is kept any more')
  }
  const ring = new Ring({
    header: new Uint8Array(header),
    openedMs: filed.openedMs,
    limits: filed.limits,
    clock: setup.clock,
    budget: setup.budget,
    watch,
  })
  const feed = createFeed(setup, filed, ring, onEnd)
  for (const [id, fields] of entries) feed.stream.take(String(id), fields)
  if (entries.length === loadEntries) await catchUp(setup, feed)
  return feed
}

/** Reads all entries from Redis, even for slow readers. Rejects if Redis does not answer. */
export async function catchUp(setup: RedisLogSetup, { filed, ring, stream }: Feed): Promise<void> {
  while (ring.end === undefined) {
    const entries = await entriesAfter(setup, filed.key, stream.after)
    for (const [id, fields] of entries) stream.take(String(id), fields)
    if (entries.length < loadEntries) return
  }
}

async function entriesAfter({ keys, commands }: RedisLogSetup, key: string, id: string): Promise<Entries> {
  const range = ['XRANGE', keys.entries(key), `(${id}`, '+', 'COUNT', loadEntries] as const
  return (await commands.call(...range)) as Entries
}

/** @param ring is filled after its last entry */
export function createFeed(
  setup: RedisLogSetup,
  filed: DirectoryEntry,
  ring: Ring,
  onEnd: (stored: StoredEnd) => void,
): Feed {
  const { key, epoch } = filed
  let inHurry = false
  return {
    filed,
    ring,
    stream: {
      key: setup.keys.entries(key),
      get after() {
        return entryId(epoch, ring.nextPosition - 1)
      },
      get wanted() {
        return ring.end === undefined && (inHurry || !ring.full)
      },
      take(id, [name, value]) {
        const position = positionOf(id)
        if (value === undefined) return
        if (position === undefined) {
          const stored = decodeEnd(String(value))
          ring.finish(stored.end)
          onEnd(stored)
        } else if (position >= ring.nextPosition) {
          // Entries that Redis has lost, or dropped before they were read here, are a gap.
          ring.skipTo(position)
          ring.append(value, Number(String(name)))
        }
      },
    },
    forceShutdown() {
      inHurry = true
    },
  }
}
