import { noFee } from '../money/fees.ts'
import { maxAmount } from '../money/money.ts'
import { accept, type Result, rejectField } from '../rejections.ts'
import { book, type OperationContext } from '../transaction/change.ts'
import { type LedgerEntry, type Line, transfer } from './ledger.ts'

export interface Payout {
  readonly line: Line
  readonly ledgerEntry: LedgerEntry
}

/**
 * Books a payout of a part of the balance to the merchant's bank account. Rejects a merchant without a bank
 * account, and an amount below 1 or above the balance.
 *
 * @param balance the sum of the merchant's lines, in minor units of the merchant's currency
 * @param amount null for the whole balance, at most `maxAmount`
 */
export function payOut(
  balance: bigint,
  amount: bigint | null,
  context: Pick<OperationContext, 'merchant' | 'nowMs' | 'nextId'>,
): Result<Payout> {
  const { merchant } = context
  if (merchant.bank === null) return rejectField('bank.iban', 'required', 'the merchant has no bank account')
  const paid = amount ?? (balance < maxAmount ? balance : maxAmount)
  if (paid < 1n) return rejectField('amount', 'too_small', `${paid} is below 1`)
  if (paid > balance)
    return rejectField('amount', 'too_large', `${paid} is more than the balance of ${balance}`)
  const money = { currency: merchant.currency, amount: paid }
  return accept(
    book(
      {
        kind: 'payout',
        postings: transfer({ account: 'merchant', money }, { account: 'payouts', money }),
        amount: money,
        fee: noFee,
        description: 'Payout',
        disputeId: null,
      },
      null,
      context,
    ),
  )
}
