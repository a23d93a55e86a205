import type { AnimationIds } from '../../wire/animation-ids.ts'
import type { RequestEnd, RingLimits } from '../stream-log.ts'

/** What a broker needs to serve a request, as stored in Redis. */
export interface DirectoryEntry {
  readonly key: string
  /** The first part of ids in the stream of the request. A later request has a greater epoch. */
  readonly epoch: number
  /** The broker to which the producer is connected, or was connected last. */
  readonly podId: string
  /**
   * How often the producer has moved to another broker. Redis rejects messages and ends of earlier owners.
   */
  readonly owner: number
  /** If its broker is lost, a request ends after this time, or after `lostMs` if that is longer. */
  readonly graceMs: number
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** When the request began by the clock of the producer's broker, in milliseconds since the epoch. */
  readonly openedMs: number
  readonly limits: RingLimits
  readonly ended?: EndedAt
}

interface EndedAt {
  readonly end: RequestEnd
  /** The broker that ended the request; undefined if that has an older version. */
  readonly by?: string
  /** When the request ended by the clock of the ending broker, in milliseconds since the epoch. */
  readonly atMs: number
}

/** The end of a request. `by` is the broker that wrote it; empty for a broker of an older version. */
export interface StoredEnd {
  readonly end: RequestEnd
  readonly by: string
}

export const encodeEnd = ({ end, by }: StoredEnd): string => JSON.stringify({ ...end, by })

export function decodeEnd(text: string): StoredEnd {
  const { by = '', ...end }: RequestEnd & { by?: string } = JSON.parse(text)
  return { end, by }
}

export const endedEntry = (entry: DirectoryEntry, stored: StoredEnd, atMs: number): DirectoryEntry => ({
  ...entry,
  ended: { ...stored, atMs },
})

/** Encodes an entry without its epoch, which a script in Redis puts before it. */
export function encodeEntry(entry: Omit<DirectoryEntry, 'key' | 'epoch'>): string {
  const { podId, owner, graceMs, ids, sourceServiceId, route, traceparent, openedMs, limits, ended } = entry
  const named = { podId, owner, graceMs, ids, sourceServiceId, route, traceparent, openedMs, limits, ended }
  return JSON.stringify(named)
}

/** Decodes `<epoch> <entry>`. Returns undefined for other values, which no broker writes. */
export function decodeEntry(key: string, value: string): DirectoryEntry | undefined {
  const space = value.indexOf(' ')
  try {
    // Older versions write neither the owner nor the grace period.
    return {
      owner: 0,
      graceMs: 0,
      ...JSON.parse(value.slice(space + 1)),
      key,
      epoch: Number(value.slice(0, space)),
    }
  } catch {
    return undefined
  }
}
