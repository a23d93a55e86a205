import type { AnimationIds } from '../../wire/animation-ids.ts'
import type { RequestEnd, RingLimits } from '../stream-log.ts'

/** What the directory in Redis tells of a request: all that a broker needs to offer it to consumers. */
export interface FiledRequest {
  readonly key: string
  /** The first part of the ids of its entries. Of two requests the later has the greater one. */
  readonly epoch: number
  /** The broker with the producer. */
  readonly podId: string
  /** How many brokers the producer had before. Entries and ends of an earlier owner are refused. */
  readonly owner: number
  /**
   * How long a broker that is lost may be silent before the request ends, if that is longer than for others.
   */
  readonly graceMs: number
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** By the clock of the producer's broker, in milliseconds since the epoch. */
  readonly openedMs: number
  readonly limits: RingLimits
  /** Undefined while it runs. */
  readonly ended?: EndedAt
}

export interface EndedAt {
  readonly end: RequestEnd
  /** By the clock of the broker that ended it. */
  readonly atMs: number
}

/** What stands in the directory behind the epoch, which Redis gives. */
export function encodeFiled(filed: Omit<FiledRequest, 'key' | 'epoch'>): string {
  const { podId, owner, graceMs, ids, sourceServiceId, route, traceparent, openedMs, limits, ended } = filed
  const named = { podId, owner, graceMs, ids, sourceServiceId, route, traceparent, openedMs, limits, ended }
  return JSON.stringify(named)
}

/** Undefined for what is none; brokers write nothing else there. */
export function decodeFiled(key: string, value: string): FiledRequest | undefined {
  const space = value.indexOf(' ')
  try {
    // Brokers of older versions write neither owner nor grace.
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

/** The field of a request's ids in the hash of those that run, which is one per ids. */
export function idsField({ streamId, requestId, targetObjectId }: AnimationIds): string {
  return JSON.stringify([streamId, requestId, targetObjectId])
}
