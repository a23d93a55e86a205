import type { AuthorisationAnswer } from './processor.ts'

/** The stored answer to an authorisation, and whether the authorisation was cancelled. */
export interface KeptAnswer {
  readonly answer: AuthorisationAnswer
  readonly cancelled: boolean
}

/** The answers of the test processor to authorisations, by operation id. */
export interface AnswerStore {
  /** Stores the answer, unless the operation has one already. Resolves with the stored answer. */
  keep(operationId: string, answer: AuthorisationAnswer, nowMs: number): Promise<KeptAnswer>
  /**
   * Marks the operation as cancelled. If it has no answer yet, stores `declined`, so that no approval can
   * follow. Resolves with the stored answer.
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
