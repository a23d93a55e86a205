import { isRefused } from '../../domain/refusals.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import type { CardInput } from '../../processor/processor.ts'
import type { Outcome, Payments } from '../operation.ts'
import { authenticatePayer, type PayerPayment, pay } from '../transactions/pay.ts'

export interface CardPayment extends PayerPayment {
  readonly card: CardInput
}

/** Authenticates and pays, as the payment page does with a card that needs no challenge. */
export async function payByCard(payments: Payments, request: CardPayment): Outcome<Transaction> {
  const { card, ...payment } = request
  const ready = await authenticatePayer(payments, { ...payment, card })
  return isRefused(ready) ? ready : pay(payments, { ...payment, authentication: ready.authentication })
}
