import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import { askPeer, isDecided, type Outcome } from './ask-peer.ts'
import type { Comparison } from './comparison.ts'
import { type RecordedRequest, withoutHits } from './read-requests.ts'

/** The run ends when one service does not decide this number of requests in a row. */
const maxFailuresInRow = 20

export interface Replay {
  readonly requests: AsyncIterable<RecordedRequest>
  readonly reference: GrpcClient
  readonly candidate: GrpcClient
  /** Both services count in the same counters: the candidate reads them after the reference has counted. */
  readonly sharedCounters: boolean
  /** The timeout of each call. */
  readonly timeoutMs: number
  /** Ends the run before the next request. */
  readonly signal: AbortSignal
}

/**
 * Sends each request to both services, one request at a time, so that both count in the same order. Returns
 * the reason when it ends early because a service does not answer.
 */
export async function replayRequests(replay: Replay, comparison: Comparison): Promise<string | undefined> {
  const { requests, reference, candidate, sharedCounters, timeoutMs, signal } = replay
  const failures = { reference: 0, candidate: 0 }
  for await (const { line, message } of requests) {
    if (signal.aborted) return undefined
    const expected = askPeer(reference, message, { timeoutMs })
    if (sharedCounters) await expected
    const found = askPeer(candidate, sharedCounters ? withoutHits(message) : message, { timeoutMs })
    const outcomes = { reference: await expected, candidate: await found }
    comparison.add({ place: `line ${line}`, request: message, ...outcomes })
    for (const name of ['reference', 'candidate'] as const) {
      failures[name] = isDecided(outcomes[name]) ? 0 : failures[name] + 1
      if (failures[name] < maxFailuresInRow) continue
      const cause = reason(outcomes[name])
      return `line ${line}: the ${name} answered none of ${maxFailuresInRow} requests: ${cause}`
    }
  }
  return undefined
}

const reason = (outcome: Outcome) => ('error' in outcome ? outcome.error.message : '')
