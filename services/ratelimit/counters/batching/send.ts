import { CountersError } from '../counters.ts'

/**
 * Writes items to one Redis at once, and calls `onAnswers` at most once, possibly before it returns. With
 * `asking` it writes ASKING before each command, for items whose slot is being migrated to that Redis.
 */
export type Send<Item, Answer> = (
  items: readonly Item[],
  onAnswers: OnAnswers<Answer>,
  asking?: boolean,
) => void

/** Receives the answers in the order of the items. If the last answers are missing, `problem` says why. */
export type OnAnswers<Answer> = (
  answers: readonly (Answer | CountersError)[],
  problem: string | undefined,
) => void

export function createMissingAnswer(problem = 'the backend left out a reply'): CountersError {
  return new CountersError(problem)
}

/** The items at `positions` are to be sent again, with `send`. */
export interface Resend<Item, Answer> {
  readonly positions: readonly number[]
  readonly send: Send<Item, Answer>
}

/**
 * Sends the items of all parts again, because their first answers show that they had no effect, and replaces
 * those answers. Calls `onAll` when the last new answer has arrived.
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
