import { remainingAmount, type Transaction } from '../transaction/transaction.ts'

/**
 * The value of `remainingAmount` in the merchant's currency. The books move whole minor units; the
 * fraction that rounding leaves is stored as well, so that rounding errors do not accumulate.
 */
export interface RefundableValue {
  readonly refundableValue: bigint
  /** The exact value less `refundableValue`, at most a half up or down, in 10⁻¹⁸ of a minor unit. */
  readonly refundableRest: bigint
}

const unit = 10n ** 18n
/**
 * A fraction that is at most this far below a half is rounded up like a half: it is a half that earlier
 * divisions rounded down. All other fractions are further from a half, since amounts are at most 10¹².
 */
const tolerance = 1_000n

/**
 * Takes a part of the remaining amount and returns its share of the value. The values of several parts
 * together differ from the exact value by at most half a minor unit. Parts that make up the whole amount take
 * the whole value.
 *
 * @param amount in minor units of the transaction's currency, at most the remaining amount
 * @returns the taken value, never negative, and the remaining one
 */
export function takeValue(
  transaction: Transaction,
  amount: bigint,
): { readonly taken: bigint; readonly left: RefundableValue } {
  const { refundableValue, refundableRest } = transaction
  if (amount === 0n) return { taken: 0n, left: { refundableValue, refundableRest } }
  const remaining = remainingAmount(transaction)
  const exact = refundableValue * unit + refundableRest
  const exactLeft = exact < 0n ? 0n : (exact * (remaining - amount)) / remaining
  const rounded = (exactLeft + unit / 2n + tolerance) / unit
  // The rest is limited, because it can be out of date: the previous version changes the value but not the
  // rest.
  const valueLeft = rounded < refundableValue ? rounded : refundableValue
  return {
    taken: refundableValue - valueLeft,
    left: { refundableValue: valueLeft, refundableRest: within(exactLeft - valueLeft * unit) },
  }
}

/** Adds a value in whole minor units, such as the value of a capture, to the refundable value. */
export function addValue(transaction: Transaction, value: bigint): RefundableValue {
  const { refundableValue, refundableRest } = transaction
  return {
    refundableValue: refundableValue + value,
    refundableRest: remainingAmount(transaction) === 0n ? 0n : refundableRest,
  }
}

function within(rest: bigint): bigint {
  const half = unit / 2n
  return rest > half ? half : rest < -half ? -half : rest
}
