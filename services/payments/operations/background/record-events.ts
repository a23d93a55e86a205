import { describeMalformed, findEventProblem } from '../../processor/check-event.ts'
import type { CardProcessor, ProcessorEvent } from '../../processor/processor.ts'
import {
  claimWaitingEvents,
  closeException,
  insertException,
  type ProcessorException,
  updateOutcome,
} from '../../storage/delivery/processor-exceptions.ts'
import { StorageError, type Tx } from '../../storage/storage.ts'
import { generateId, type Payments } from '../operation.ts'
import { type BookingResult, bookEvent, type ReceivedEvent, unbooked } from './book-event.ts'

export const maxEventsAtOnce = 100

type RecordedEvent = BookingResult & {
  /** The id of the event; for a malformed event, the id with which it is stored. */
  readonly eventId: string
  /** False if the event was stored as an exception before. */
  readonly isNew: boolean
}

/**
 * Books the fraud alerts and disputes that the processor reports. Stores an event that cannot be booked: as
 * `waiting` if the record that it names may still be booked, since events can arrive out of order, else as an
 * exception for an operator. Acknowledges the events that are booked or stored, then retries waiting events.
 *
 * @param test whether `processor` is that of test merchants
 * @returns the result of each new event, and of each retried event that no longer waits
 */
export async function recordEvents(
  payments: Payments,
  processor: CardProcessor,
  test: boolean,
): Promise<readonly RecordedEvent[]> {
  const events: readonly unknown[] = (await processor.pullEvents(maxEventsAtOnce)).slice(0, maxEventsAtOnce)
  const recorded: RecordedEvent[] = []
  for (const event of events) recorded.push(await recordOrStore(payments, event, test))
  const ids = events.map(event => (event as { readonly id?: unknown } | null)?.id)
  const acknowledged = ids.filter(id => typeof id === 'string')
  if (acknowledged.length > 0) await processor.acknowledge(acknowledged)
  return [...recorded, ...(await retryWaiting(payments, test))]
}

async function recordOrStore(payments: Payments, event: unknown, test: boolean): Promise<RecordedEvent> {
  const seenMs = payments.clock.nowMs()
  const store = (stored: ProcessorException['event']) => (tx: Tx, result: BookingResult) => {
    if (result.isBooked) return true
    const { outcome, reason } = result
    return insertException(tx, { id: generateId(payments), test, event: stored, outcome, reason }, seenMs)
  }
  const problem = findEventProblem(event)
  if (problem === undefined) {
    const seen = { event: event as ProcessorEvent, test, seenMs }
    return bookAndStore(payments, seen, store(seen.event))
  }
  const malformed = describeMalformed(event)
  const result = unbooked('malformed', problem)
  const isNew = await payments.storage.transaction(async tx => store(malformed)(tx, result))
  return { eventId: malformed.id, ...result, isNew }
}

/**
 * Books the event and stores the result in one transaction. An error other than a temporary one of the
 * database gives the outcome `failed`.
 *
 * @param store stores the result; returns false if the event was stored before
 */
async function bookAndStore(
  payments: Payments,
  seen: ReceivedEvent,
  store: (tx: Tx, result: BookingResult) => boolean | Promise<boolean>,
): Promise<RecordedEvent> {
  const run = (book: (tx: Tx) => BookingResult | Promise<BookingResult>) =>
    payments.storage.transaction(async tx => {
      const result = await book(tx)
      return { eventId: seen.event.id, ...result, isNew: await store(tx, result) }
    })
  try {
    return await run(tx => bookEvent(tx, payments, seen))
  } catch (error) {
    // A temporary error of the database is rethrown: the processor then reports the event again. Any other
    // error would occur each time, and block all later events.
    if (error instanceof StorageError && error.code !== 'constraint' && error.code !== 'refused') throw error
    return run(() => unbooked('failed', (error as Error).message))
  }
}

/** Retries waiting events that are due. Returns the results of those that no longer wait. */
async function retryWaiting(payments: Payments, test: boolean): Promise<readonly RecordedEvent[]> {
  const { storage, clock } = payments
  const due = await storage.transaction(tx => claimWaitingEvents(tx, test, clock.nowMs(), maxEventsAtOnce))
  const tried: RecordedEvent[] = []
  for (const { id, event, createdMs } of due) {
    const seen = { event, test, seenMs: createdMs }
    tried.push(
      await bookAndStore(payments, seen, async (tx, result) => {
        if (result.isBooked) await closeException(tx, id, 'booked', clock.nowMs())
        else if (result.outcome !== 'waiting') await updateOutcome(tx, id, result)
        return true
      }),
    )
  }
  return tried.filter(({ outcome }) => outcome !== 'waiting')
}
