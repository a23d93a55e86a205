/** An amount in minor units of its currency: 100 of DKK is one krone, 100 of JPY is a hundred yen. */
export interface Money {
  readonly currency: string
  readonly amount: bigint
}

/**
 * The largest amount of one operation. Its value in another currency stays within the integers that a JSON
 * number represents exactly; `fitsJson` checks that too.
 */
export const maxAmount = 1_000_000_000_000n

/** The largest amount that every reader of JSON gets exactly. */
export const maxJsonAmount = BigInt(Number.MAX_SAFE_INTEGER)

/** Whether every JSON reader gets this number as it is. */
export function fitsJson(amount: bigint): boolean {
  return amount <= maxJsonAmount && amount >= -maxJsonAmount
}

/** An amount as a JSON number. Throws for one that would not arrive as it is. */
export function toJsonNumber(amount: bigint): number {
  if (!fitsJson(amount)) throw new RangeError(`${amount} is too large for a JSON number`)
  return Number(amount)
}
