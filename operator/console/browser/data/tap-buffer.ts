import type { TapBatchEvent } from '../../../api/shapes.ts'

export type TapDecision = TapBatchEvent['decisions'][number] & { readonly id: number }

export interface TapFilter {
  /** A part of an entry, of the rule, the reason or the pod; in any case. */
  readonly text: string
  readonly isRejectedOnly: boolean
}

const capacity = 200

/** Keeps the newest decisions. Each has a number, so that rows keep their elements. */
export function createTapBuffer() {
  let decisions: readonly TapDecision[] = []
  let nextId = 1
  return {
    /** Adds a batch, and returns all decisions that are kept, the newest first. */
    add(batch: TapBatchEvent['decisions']): readonly TapDecision[] {
      const numbered = batch.slice(-capacity).map(decision => ({ ...decision, id: nextId++ }))
      decisions = [...numbered.reverse(), ...decisions].slice(0, capacity)
      return decisions
    },
  }
}

export function matches(decision: TapDecision, { text, isRejectedOnly }: TapFilter): boolean {
  if (isRejectedOnly && !decision.over) return false
  const wanted = text.trim().toLowerCase()
  if (wanted === '') return true
  const { rule, reason, pod, entries } = decision
  const texts = [rule, reason, pod, ...entries.map(({ key, value }) => `${key}=${value}`)]
  return texts.some(each => each.toLowerCase().includes(wanted))
}
