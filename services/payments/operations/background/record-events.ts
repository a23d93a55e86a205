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

/** How many events one round takes from the processor, and how many of those that wait it tries again. */
export const maxEventsAtOnce = 100

type RecordedEvent = BookingResult & {
  /** The id of the event, or that under which a malformed one is stored. */
  readonly eventId: string
  /** False when the event was stored before. */
  readonly isNew: boolean
}

/**
 * Books the frauds and disputes that the processor reports. Stores events that cannot be booked: as
 * exceptions for an operator, or until their cause is in the books, because they may come out of order.
 * Acknowledges only what is booked or stored. Afterwards tries stored events again that wait for their cause.
 *
 * @param test whether it is the processor of test accounts
 * @returns what became of each event; of those that waited already, only those that wait no longer
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
 * Books the event and stores the result in one transaction.
 *
 * @param store returns whether the result is a new one
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
    // The database is away or busy: the event comes again. Any other error would come again with it, and keep
    // all events after it from being booked.
    if (error instanceof StorageError && error.code !== 'constraint' && error.code !== 'refused') throw error
    return run(() => unbooked('failed', (error as Error).message))
  }
}

/** Tries events again that are due. An event that waits on is not among the results. */
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
