import type { TapBatchEvent } from '../../../api/shapes.ts'

export type TapDecision = TapBatchEvent['decisions'][number] & { readonly id: number }

export interface TapFilter {
  /** The text to find, in any case, in an entry, the rule, the reason or the pod. */
  readonly text: string
  readonly isRejectedOnly: boolean
}

const capacity = 200

/** The newest decisions. The rows of a table keep their elements by the unique `id`. */
export class TapBuffer {
  #decisions: readonly TapDecision[] = []
  #nextId = 1

  /** Returns all decisions, newest first. */
  add(batch: TapBatchEvent['decisions']): readonly TapDecision[] {
    const numbered = batch.slice(-capacity).map(decision => ({ ...decision, id: this.#nextId++ }))
    this.#decisions = [...numbered.reverse(), ...this.#decisions].slice(0, capacity)
    return this.#decisions
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
