import type { AuthorisationAnswer, ProcessorEvent } from './processor.ts'

export interface KeptAnswer {
  readonly answer: AuthorisationAnswer
  readonly cancelled: boolean
}

/** The answers of the test processor to authorisations, by operation id. */
export interface AnswerStore {
  /** Stores the answer, unless the operation has one already. Resolves with the stored answer. */
  keep(operationId: string, answer: AuthorisationAnswer, nowMs: number): Promise<KeptAnswer>
  /** Stores `declined` if the operation has no answer yet, so that no approval can follow. */
  cancel(operationId: string, declined: AuthorisationAnswer, nowMs: number): Promise<KeptAnswer>
}

/** An event that the test processor reports from `dueMs` on. */
export interface DueEvent {
  readonly dueMs: number
  readonly event: ProcessorEvent
}

/** Stores the future events of the test processor. Events survive a restart only in a persistent journal. */
export interface EventJournal {
  /** Appends events. Ignores an event whose id was appended before, even if the event was removed since. */
  append(events: readonly DueEvent[]): Promise<void>
  /** Resolves with at most `limit` due events, the earliest first. */
  due(nowMs: number, limit: number): Promise<readonly ProcessorEvent[]>
  remove(eventIds: readonly string[]): Promise<void>
}
