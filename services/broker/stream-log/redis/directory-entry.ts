import type { AnimationIds } from '../../wire/animation-ids.ts'
import type { RequestEnd, RingLimits } from '../stream-log.ts'

/** The directory entry of a request in Redis, with all data that a broker needs to serve it. */
export interface DirectoryEntry {
  readonly key: string
  /** The first part of the ids of its messages. A later request has a greater epoch. */
  readonly epoch: number
  /** The broker of the producer. */
  readonly podId: string
  /**
   * The number of brokers that the producer used before. Redis rejects messages and ends of earlier owners.
   */
  readonly owner: number
  /** The silence after which a request of a lost broker ends, if it is longer than the default. */
  readonly graceMs: number
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** The time by the clock of the producer's broker, in milliseconds since the epoch. */
  readonly openedMs: number
  readonly limits: RingLimits
  /** Undefined while it is running. */
  readonly ended?: EndedAt
}

interface EndedAt {
  readonly end: RequestEnd
  /** The broker that ended it; older versions of the broker do not write it. */
  readonly by?: string
  /** The time by the clock of the broker that ended it. */
  readonly atMs: number
}

/** An end in Redis, and the broker that wrote it; empty for older versions of the broker. */
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

/** The directory entry without the epoch, which Redis adds. */
export function encodeEntry(entry: Omit<DirectoryEntry, 'key' | 'epoch'>): string {
  const { podId, owner, graceMs, ids, sourceServiceId, route, traceparent, openedMs, limits, ended } = entry
  const named = { podId, owner, graceMs, ids, sourceServiceId, route, traceparent, openedMs, limits, ended }
  return JSON.stringify(named)
}

/** Undefined for an invalid value; brokers write no other values there. */
export function decodeEntry(key: string, value: string): DirectoryEntry | undefined {
  const space = value.indexOf(' ')
  try {
    // Older versions of the broker write neither owner nor grace.
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
