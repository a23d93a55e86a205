import { pluralize } from '@tollway/chassis/text.ts'
import type { Route } from '../routes/route.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'

/** The maximum number of warnings in the queue of a consumer; further ones are left out. */
const maxNotices = 8

/**
 * The warnings of the broker to a consumer. Each is sent before the next message of the served request; those
 * that no message follows are kept for the next request.
 */
export class PullNotices {
  readonly #queue: Status[] = []

  add(message: string): void {
    if (this.#queue.length < maxNotices) this.#queue.push({ code: 'WARNING', message })
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** Removes and returns the oldest. */
  take(): Status | undefined {
    return this.#queue.shift()
  }
}

/** The warning about a request that the pull does not serve. */
export const leftOut = (reason: string): string => `left out: ${reason}`

export function tooManyConsumers(ids: string, { limits: { consumers } }: Route): string {
  const many = pluralize(consumers, 'consumer, which is', 'consumers, which are')
  return `the request ${ids} has ${many} all that its route allows`
}

/** Returns the request id. It adds the ids that the pull did not name if several requests could have it. */
export function nameOf({ requestId, streamId, targetObjectId }: AnimationIds, wanted: AnimationIds): string {
  const stream = wanted.streamId === '' ? ` of the stream ${JSON.stringify(streamId)}` : ''
  const isNameless = requestId === '' && targetObjectId !== wanted.targetObjectId
  return `${JSON.stringify(requestId)}${stream}${isNameless ? ` for ${JSON.stringify(targetObjectId)}` : ''}`
}
