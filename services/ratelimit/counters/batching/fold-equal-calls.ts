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
    const folded = new Map<string, { place: number; readonly calls: (readonly Member[])[] }>()
    const places = calls.map(({ batch }) => {
      const name = batch.map(identityOf).join('\n')
      const found = folded.get(name) ?? { place: folded.size, calls: [] }
      folded.set(name, found)
      found.calls.push(batch)
      return { item: found.place, at: found.calls.length - 1 }
    })
    const items = [...folded.values()].map(({ calls: some }) => ({ members: some[0] ?? [], calls: some }))
    send(items, (answers, problem) => {
      onAnswers(index => {
        const { item, at } = places[index] ?? { item: -1, at: -1 }
        const answer = answers[item]
        if (answer instanceof CountersError) return answer
        return answer?.[at] ?? missingAnswer(problem)
      })
    })
  }
}

/** A change of the configuration may give a key another limit between two calls of a write. */
function identityOf({ key, limit, burst, ticksPerSecond, shadow }: Member): string {
  return `${limit} ${burst} ${ticksPerSecond} ${shadow} ${key}`
}
