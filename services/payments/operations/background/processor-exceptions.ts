import { isId } from '../../domain/ids.ts'
import { accept, done, type Result, reject } from '../../domain/rejections.ts'
import { closeException, lockOpenException } from '../../storage/delivery/processor-exceptions.ts'
import type { Tx } from '../../storage/storage.ts'
import type { Payments } from '../operation.ts'
import { type BookingResult, bookEvent, unbooked } from './book-event.ts'

async function lockException(tx: Tx, id: string) {
  const found = isId(id) ? await lockOpenException(tx, id) : undefined
  return found === undefined ? reject('not_found', 'No open exception has this id.') : accept(found)
}

/** Tries again to book an event after an operator has removed the cause. Closes a booked one. */
export async function retryException(tx: Tx, payments: Payments, id: string): Promise<Result<BookingResult>> {
  const exception = await lockException(tx, id)
  if (!exception.ok) return exception
  const { event, test, createdMs, reason } = exception.value
  if (event.kind === 'malformed') return accept(unbooked('malformed', reason))
  const result = await bookEvent(tx, payments, { event, test, seenMs: createdMs })
  if (result.isBooked) await closeException(tx, id, 'booked', payments.clock.nowMs())
  return accept(result)
}

/** Closes an exception without booking the event, and stores the operator's note about the solution. */
export async function closeExceptionByHand(
  tx: Tx,
  payments: Payments,
  { id, note }: { readonly id: string; readonly note: string },
): Promise<Result<void>> {
  const exception = await lockException(tx, id)
  if (!exception.ok) return exception
  await closeException(tx, id, note, payments.clock.nowMs())
  return done
}
