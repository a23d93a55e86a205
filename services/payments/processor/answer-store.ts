import type { AuthorisationAnswer } from './processor.ts'

/** The first answer to an operation. */
export interface KeptAnswer {
  readonly answer: AuthorisationAnswer
  readonly cancelled: boolean
}

/** The answers of the test processor to authorisations, by their operation ids. */
export interface AnswerStore {
  /** Stores the answer unless there is one. Resolves with the one that is stored. */
  keep(operationId: string, answer: AuthorisationAnswer, nowMs: number): Promise<KeptAnswer>
  /**
   * Marks the answer as cancelled. Where there is none, stores `declined`, so that no approval follows.
   * Resolves with the answer that is stored.
   */
  cancel(operationId: string, declined: AuthorisationAnswer, nowMs: number): Promise<KeptAnswer>
}

/** Creates a store in memory, for tests. */
export function createMemoryAnswers(): AnswerStore {
  const answers = new Map<string, KeptAnswer>()
  const put = (operationId: string, kept: KeptAnswer) => {
    answers.set(operationId, kept)
    return Promise.resolve(kept)
  }
  return {
    keep: (operationId, answer) => put(operationId, answers.get(operationId) ?? { answer, cancelled: false }),
    cancel: (operationId, answer) =>
      put(operationId, { answer: answers.get(operationId)?.answer ?? answer, cancelled: true }),
  }
}
