import { refundableAmount, type Transaction } from '../transaction/transaction.ts'

/**
 * The value of the refundable amount in the merchant's balance. The books move whole minor units. The
 * remaining fraction is stored too, so that roundings do not accumulate.
 */
export interface RefundableValue {
  /** The value in minor units of the merchant's currency. */
  readonly refundableValue: bigint
  /** The rest in units of 10⁻¹⁸ of a minor unit, half a minor unit at most. */
  readonly refundableRest: bigint
}

const unit = 10n ** 18n
/**
 * A value this close below a half counts as a half: it is one whose divisions were rounded to units. The
 * distance of other values from a half is larger, since amounts are at most 10¹².
 */
const tolerance = 1_000n

/**
 * Takes the value of a part of the refundable amount: its share of the exact value. The value of any number
 * of parts together differs from the exact one by half a minor unit at most, and the parts of the whole
 * amount take the whole value.
 *
 * @param amount in minor units of the transaction's currency, at most the refundable amount
 * @returns the taken value, never negative, and the remaining one
 */
export function takeValue(
  transaction: Transaction,
  amount: bigint,
): { readonly taken: bigint; readonly left: RefundableValue } {
  const { refundableValue, refundableRest } = transaction
  if (amount === 0n) return { taken: 0n, left: { refundableValue, refundableRest } }
  const refundable = refundableAmount(transaction)
  const exact = refundableValue * unit + refundableRest
  const exactLeft = exact < 0n ? 0n : (exact * (refundable - amount)) / refundable
  const rounded = (exactLeft + unit / 2n + tolerance) / unit
  // A process of the version before changes the value and not its rest.
  const valueLeft = rounded < refundableValue ? rounded : refundableValue
  return {
    taken: refundableValue - valueLeft,
    left: { refundableValue: valueLeft, refundableRest: within(exactLeft - valueLeft * unit) },
  }
}

/** Adds a whole value, such as that of a capture. */
export function addValue(transaction: Transaction, value: bigint): RefundableValue {
  const { refundableValue, refundableRest } = transaction
  return {
    refundableValue: refundableValue + value,
    refundableRest: refundableAmount(transaction) === 0n ? 0n : refundableRest,
  }
}

function within(rest: bigint): bigint {
  const half = unit / 2n
  return rest > half ? half : rest < -half ? -half : rest
}
