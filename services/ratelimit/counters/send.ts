import { CountersError } from './counters.ts'

/**
 * Writes items to one Redis at once, and calls `onAnswers` once, if ever; perhaps before it returns. `asking`
 * puts ASKING before each command: the item's slot is only on its way to that Redis.
 */
export type Send<Item, Answer> = (
  items: readonly Item[],
  onAnswers: OnAnswers<Answer>,
  asking?: boolean,
) => void

/**
 * The answers in the order of the items. Where some are missing at the end, the problem says why; its text
 * reaches the callers.
 */
export type OnAnswers<Answer> = (
  answers: readonly (Answer | CountersError)[],
  problem: string | undefined,
) => void

export function missingAnswer(problem = 'the backend left out a reply'): CountersError {
  return new CountersError(problem)
}

/** Items by their places, and how they are to be sent once more. */
export interface Again<Item, Answer> {
  readonly places: readonly number[]
  readonly send: Send<Item, Answer>
}

/**
 * Sends once more the items of which the answers say that they had no effect, and answers all when the last
 * of the new answers has come.
 */
export function sendAgain<Item, Answer>(
  items: readonly Item[],
  answers: readonly (Answer | CountersError)[],
  parts: readonly Again<Item, Answer>[],
  onAll: (answers: readonly (Answer | CountersError)[]) => void,
): void {
  const all = [...answers]
  let open = parts.length
  for (const { places, send } of parts) {
    const part: Item[] = []
    for (const place of places) {
      const item = items[place]
      if (item !== undefined) part.push(item)
    }
    send(part, (later, problem) => {
      for (const [index, place] of places.entries()) all[place] = later[index] ?? missingAnswer(problem)
      open -= 1
      if (open === 0) onAll(all)
    })
  }
}
