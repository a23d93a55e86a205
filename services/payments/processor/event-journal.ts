import type { ProcessorEvent } from './processor.ts'

/** An event that is due from `dueMs` on. */
export interface DueEvent {
  /** Milliseconds since the epoch. */
  readonly dueMs: number
  readonly event: ProcessorEvent
}

/** Stores the future events of the test processor. To survive a restart, a journal has to be persistent. */
export interface EventJournal {
  /** Appends events. An event whose id exists, or was removed, changes nothing. */
  append(events: readonly DueEvent[]): Promise<void>
  /** Returns due events, ordered by their time. */
  due(nowMs: number, limit: number): Promise<readonly ProcessorEvent[]>
  remove(eventIds: readonly string[]): Promise<void>
}
