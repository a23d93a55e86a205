import type { Member, MemberOutcome } from '../admission/member.ts'
import { CountersError } from '../counters.ts'
import type { SendCalls } from './pipeline.ts'
import { missingAnswer, type Send } from './send.ts'

/** Calls with the same limits and keys, which are decided one after the other in one step. */
export interface FoldedCalls {
  /** The limits, with the hits of the first call. */
  readonly members: readonly Member[]
  /** The members of each call, which differ in their hits only. */
  readonly calls: readonly (readonly Member[])[]
}

/** The outcomes of each call, in order. */
export type FoldedOutcomes = readonly (readonly MemberOutcome[])[]

/**
 * Sends the calls of a write, those with the same keys as one item: many callers of one key cost the backend
 * little more than one, and each has the answer of its place in the order of arrival.
 */
export function sendFolded(send: Send<FoldedCalls, FoldedOutcomes>): SendCalls<Member, MemberOutcome> {
  return (calls, onAnswers) => {
    const items: { readonly members: readonly Member[]; readonly calls: (readonly Member[])[] }[] = []
    /** The last item of each first key. */
    const lastItems = new Map<string, number>()
    /** The item of each call, and its index within the item. */
    const places = new Int32Array(2 * calls.length)
    for (const [index, { batch }] of calls.entries()) {
      const key = batch[0]?.key ?? ''
      let place = lastItems.get(key) ?? -1
      if (!haveEqualLimits(items[place]?.members, batch)) {
        place = items.push({ members: batch, calls: [] }) - 1
        lastItems.set(key, place)
      }
      places[2 * index] = place
      places[2 * index + 1] = (items[place]?.calls.push(batch) ?? 0) - 1
    }
    send(items, (answers, problem) => {
      onAnswers(index => {
        const answer = answers[places[2 * index] ?? -1]
        if (answer instanceof CountersError) return answer
        return answer?.[places[2 * index + 1] ?? -1] ?? missingAnswer(problem)
      })
    })
  }
}

/** A change of the configuration may give a key another limit between two calls of a write. */
function haveEqualLimits(members: readonly Member[] | undefined, others: readonly Member[]): boolean {
  if (members?.length !== others.length) return false
  return members.every((member, index) => {
    const other = others[index]
    return (
      member.key === other?.key &&
      member.limit === other.limit &&
      member.burst === other.burst &&
      member.ticksPerSecond === other.ticksPerSecond &&
      member.shadow === other.shadow
    )
  })
}
