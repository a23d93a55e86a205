import { pluralize } from '@tollway/chassis/pluralize.ts'
import type { Route } from '../routes/route.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'

/** The warning to a consumer about a request that its pull does not serve. */
export const leftOut = (reason: string): Status => ({ code: 'WARNING', message: `left out: ${reason}` })

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
