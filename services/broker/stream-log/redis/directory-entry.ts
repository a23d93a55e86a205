import type { AnimationIds } from '../../wire/animation-ids.ts'
import type { RequestEnd, RingLimits } from '../stream-log.ts'

/** The entry of a request in the directory in Redis: all data that a broker needs to serve the request. */
export interface DirectoryEntry {
  readonly key: string
  /** The first part of the ids of the request's messages in Redis. A later request has a greater epoch. */
  readonly epoch: number
  /** The broker to which the producer is connected, or was last. */
  readonly podId: string
  /**
   * How often the producer has moved to another broker. Redis rejects messages and ends from earlier owners.
   */
  readonly owner: number
  /** If this broker is lost, the request ends after this time, or after `lostMs` if that is longer. */
  readonly graceMs: number
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** The time by the clock of the producer's broker, in milliseconds since the epoch. */
  readonly openedMs: number
  readonly limits: RingLimits
  /** Undefined while the request is running. */
  readonly ended?: EndedAt
}

interface EndedAt {
  readonly end: RequestEnd
  /** The broker that ended the request; undefined if that broker has an older version. */
  readonly by?: string
  /** The time by the clock of the broker that ended the request, in milliseconds since the epoch. */
  readonly atMs: number
}

/**
 * An end as it is stored in Redis. `by` is the broker that wrote it; empty if that broker has an older
 * version.
 */
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

/** Decodes `<epoch> <entry>`. Returns undefined for any other value, which no broker writes. */
export function decodeEntry(key: string, value: string): DirectoryEntry | undefined {
  const space = value.indexOf(' ')
  try {
    // Older versions of the broker write neither owner nor grace period.
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
