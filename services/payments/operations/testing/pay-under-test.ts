import type { Result } from '../../domain/rejections.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import type { CardInput } from '../../processor/processor.ts'
import type { Payments } from '../operation.ts'
import { authenticatePayer, type findPayment, pay } from '../transactions/pay.ts'

export type CardPayment = Parameters<typeof findPayment>[1] & { readonly card: CardInput }

/** Authenticates and pays, as the payment page does with a card that needs no challenge. */
export async function payByCard(payments: Payments, request: CardPayment): Promise<Result<Transaction>> {
  const { card, ...payment } = request
  const ready = await authenticatePayer(payments, { ...payment, card })
  return ready.ok ? pay(payments, { ...payment, authentication: ready.value.authentication }) : ready
}
