/** A number as a fraction, so that nothing is lost before the one rounding at the end. Never negative. */
export interface Ratio {
  readonly numerator: bigint
  /** The denominator is above zero. */
  readonly denominator: bigint
}

const decimalPattern = /^(\d{1,12})(?:\.(\d{1,12}))?$/

/**
 * Parses a decimal number such as `7.4604` exactly. Returns undefined for other texts, and for more than 12
 * digits before or after the point.
 */
export function parseDecimal(text: string): Ratio | undefined {
  const [, whole, fraction = ''] = decimalPattern.exec(text) ?? []
  if (whole === undefined) return undefined
  return { numerator: BigInt(whole + fraction), denominator: 10n ** BigInt(fraction.length) }
}

/**
 * amount × numerator ÷ denominator, rounded half to even, which is the rule for all money here: a long run of
 * roundings favours neither side. For an amount that is not negative.
 */
export function scale(amount: bigint, { numerator, denominator }: Ratio): bigint {
  const product = amount * numerator
  const quotient = product / denominator
  const twiceRest = (product % denominator) * 2n
  const up = twiceRest > denominator || (twiceRest === denominator && quotient % 2n === 1n)
  return up ? quotient + 1n : quotient
}
