import type { ProcessorEvent } from './processor.ts'

/** An event that the test processor reports from `dueMs` on. */
export interface DueEvent {
  /** Milliseconds since the epoch. */
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
