import type { ProcessorEvent } from './processor.ts'

/** An event that the processor reports from `dueMs` on. */
export interface DueEvent {
  /** Milliseconds since the epoch. */
  readonly dueMs: number
  readonly event: ProcessorEvent
}

/** Stores the events that the test processor reports later. A stored journal survives a restart. */
export interface EventJournal {
  /** An event whose id is there already, or was removed, changes nothing. */
  append(events: readonly DueEvent[]): Promise<void>
  /** Returns the due events, ordered by the time at which they became due. */
  due(nowMs: number, limit: number): Promise<readonly ProcessorEvent[]>
  remove(eventIds: readonly string[]): Promise<void>
}

/** The number of removed events that are remembered, so that a repeated call does not report them again. */
const maxRemembered = 10_000

/** A journal that ends with the process. It is as long as what was not pulled and acknowledged yet. */
export function createMemoryJournal(): EventJournal {
  const events = new Map<string, DueEvent>()
  const removed = new Set<string>()
  return {
    append(added) {
      for (const one of added) {
        if (!events.has(one.event.id) && !removed.has(one.event.id)) events.set(one.event.id, one)
      }
      return Promise.resolve()
    },
    due(nowMs, limit) {
      const due = [...events.values()].filter(({ dueMs }) => dueMs <= nowMs)
      const inOrder = due.sort((a, b) => a.dueMs - b.dueMs).slice(0, limit)
      return Promise.resolve(inOrder.map(({ event }) => event))
    },
    remove(eventIds) {
      for (const id of eventIds) {
        events.delete(id)
        removed.add(id)
      }
      for (const id of removed) {
        if (removed.size <= maxRemembered) break
        removed.delete(id)
      }
      return Promise.resolve()
    },
  }
}
