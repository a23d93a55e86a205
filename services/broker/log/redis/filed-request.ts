import type { AnimationIds } from '../../wire/animation-ids.ts'
import type { RequestEnd, RingLimits } from '../stream-log.ts'

/** What the directory in Redis tells of a request: all that a broker needs to offer it to consumers. */
export interface FiledRequest {
  readonly key: string
  /** The first part of the ids of its entries. Of two requests the later has the greater one. */
  readonly epoch: number
  /** The broker with the producer. */
  readonly podId: string
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
  const { podId, ids, sourceServiceId, route, traceparent, openedMs, limits, ended } = filed
  return JSON.stringify({ podId, ids, sourceServiceId, route, traceparent, openedMs, limits, ended })
}

/** Undefined for what is none; brokers write nothing else there. */
export function decodeFiled(key: string, value: string): FiledRequest | undefined {
  const space = value.indexOf(' ')
  try {
    return { ...JSON.parse(value.slice(space + 1)), key, epoch: Number(value.slice(0, space)) }
  } catch {
    return undefined
  }
}

/** The field of a request's ids in the hash of those that run, which is one per ids. */
export function idsField({ streamId, requestId, targetObjectId }: AnimationIds): string {
  return JSON.stringify([streamId, requestId, targetObjectId])
}
