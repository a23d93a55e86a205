import type { BackendStats } from '../backend-stats.ts'
import { isMemcachedError, isValueReply, type MemcachedReply } from './reply-parser.ts'

export type CallStats = ReturnType<typeof createCallStats>

/**
 * Creates the counters with the names of envoyproxy/ratelimit, such as `ratelimit.memcache.multiget`, with
 * the result as the tag `code`. A missing reply counts as an error, and a counter at 0 as a missing key.
 */
export function createCallStats(stats: BackendStats) {
  const tally = (name: string) => stats.counter(`ratelimit.memcache.${name}`)
  const tallies = <Code extends string>(call: string, ...codes: readonly Code[]) =>
    Object.fromEntries(codes.map(code => [code, tally(`${call}.__code=${code}`)])) as Record<
      Code,
      ReturnType<typeof tally>
    >
  const multiget = tallies('multiget', 'success', 'error')
  const add = tallies('add', 'success', 'error', 'not_stored')
  const increment = tallies('increment', 'success', 'error', 'miss')
  const [keysRequested, keysFound] = [tally('keys_requested'), tally('keys_found')]
  return {
    /** Counts the replies to all reads of one write. */
    countReads(replies: readonly (MemcachedReply | undefined)[]): void {
      const answered = replies.every(reply => reply !== undefined && !isMemcachedError(reply))
      multiget[answered ? 'success' : 'error'].value += 1
      keysRequested.value += replies.length
      for (const reply of replies) if (isValueReply(reply) && reply.value !== 0) keysFound.value += 1
    },
    countAdd(reply: MemcachedReply | undefined): void {
      const code = reply === 'STORED' ? 'success' : reply === 'NOT_STORED' ? 'not_stored' : 'error'
      add[code].value += 1
    },
    countIncrement(reply: MemcachedReply | undefined): void {
      const isCount = typeof reply === 'number' || typeof reply === 'bigint'
      increment[isCount ? 'success' : reply === 'NOT_FOUND' ? 'miss' : 'error'].value += 1
    },
  }
}
