import { CountersError } from '../counters.ts'

/**
 * Writes items to one Redis at once, and calls `onAnswers` at most once, possibly before it returns. With
 * `asking` it puts ASKING before each command, for items whose slot is being migrated to that Redis.
 */
export type Send<Item, Answer> = (
  items: readonly Item[],
  onAnswers: OnAnswers<Answer>,
  asking?: boolean,
) => void

/**
 * The answers in the order of the items. If some are missing at the end, the problem is the reason; callers
 * receive its text.
 */
export type OnAnswers<Answer> = (
  answers: readonly (Answer | CountersError)[],
  problem: string | undefined,
) => void

export function createMissingAnswer(problem = 'the backend left out a reply'): CountersError {
  return new CountersError(problem)
}

/** Items, by their indexes, to be sent again with `send`. */
export interface Resend<Item, Answer> {
  readonly positions: readonly number[]
  readonly send: Send<Item, Answer>
}

/**
 * Resends the items whose answers show that they had no effect, and calls `onAll` when the last new answer
 * has arrived.
 */
export function resend<Item, Answer>(
  items: readonly Item[],
  answers: readonly (Answer | CountersError)[],
  parts: readonly Resend<Item, Answer>[],
  onAll: (answers: readonly (Answer | CountersError)[]) => void,
): void {
  const all = [...answers]
  let open = parts.length
  for (const { positions, send } of parts) {
    const part: Item[] = []
    for (const position of positions) {
      const item = items[position]
      if (item !== undefined) part.push(item)
    }
    send(part, (later, problem) => {
      for (const [index, position] of positions.entries())
        all[position] = later[index] ?? createMissingAnswer(problem)
      open -= 1
      if (open === 0) onAll(all)
    })
  }
}
