import type { AnswerStore, DueEvent, EventJournal, KeptAnswer } from '../processor/test-stores.ts'

/** At most this many removed ids are remembered, so that their events are not appended again. */
const maxRemembered = 10_000

/** Holds all events that are not acknowledged yet, without a limit. */
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
