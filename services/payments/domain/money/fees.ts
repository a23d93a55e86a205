import { quote } from '@tollway/chassis/text.ts'
import { isCurrency, parseDecimal, type Ratio, scale } from './money.ts'

/** The cost of an operation for the merchant, in minor units of the merchant's currency. */
export interface Fee {
  readonly flat: bigint
  /** The part of the fee that is proportional to the amount. */
  readonly rate: bigint
  readonly total: bigint
}

export const noFee: Fee = { flat: 0n, rate: 0n, total: 0n }

const feeOperations = ['capture', 'refund', 'dispute'] as const
type FeeOperation = (typeof feeOperations)[number]

interface FeeRule {
  /** The amount in minor units of the merchant's currency. */
  readonly flat: bigint
  /** The share of the amount, from 0 to 1. */
  readonly rate: Ratio
}

/** The fees, by funding currency and operation. A missing operation costs nothing. */
export type FeeTable = ReadonlyMap<string, Readonly<Partial<Record<FeeOperation, FeeRule>>>>

/**
 * Returns the fee of an operation, in minor units of `currency`, the funding currency of the merchant. The
 * proportional part is rounded for the total of the operations of this kind on the transaction, so that
 * several partial operations cost what one operation on the whole costs.
 *
 * @param amount in minor units of the funding currency, after the exchange
 * @param before the sum of the amounts of the earlier operations of this kind on the transaction
 */
export function calculateFee(
  table: FeeTable,
  operation: FeeOperation,
  currency: string,
  amount: bigint,
  before = 0n,
): Fee {
  const rule = table.get(currency)?.[operation]
  if (rule === undefined) return noFee
  const rate = scale(before + amount, rule.rate) - scale(before, rule.rate)
  return { flat: rule.flat, rate, total: rule.flat + rate }
}

/** A fee rule in the configuration: `{"flat": "25", "rate": "0.0135"}`. A missing field is "0". */
export interface FeeRuleText {
  readonly flat?: string
  readonly rate?: string
}

/** Parses `{"DKK": {"capture": {"flat": "25", "rate": "0.0135"}}}`. Returns all problems. */
export function parseFeeTable(
  configured: Readonly<Record<string, Readonly<Partial<Record<string, FeeRuleText>>>>>,
): { readonly table: FeeTable } | { readonly problems: readonly string[] } {
  const problems: string[] = []
  const table = new Map<string, Partial<Record<FeeOperation, FeeRule>>>()
  for (const [currency, rules] of Object.entries(configured)) {
    if (!isCurrency(currency)) problems.push(`${currency}: is not a currency of ISO 4217`)
    const parsed: Partial<Record<FeeOperation, FeeRule>> = {}
    for (const [operation, rule = {}] of Object.entries(rules)) {
      const known = feeOperations.find(name => name === operation)
      if (known === undefined) {
        problems.push(`${currency}.${operation}: is not one of ${feeOperations.join(', ')}`)
      } else parsed[known] = parseFeeRule(`${currency}.${operation}`, rule, problems)
    }
    table.set(currency, parsed)
  }
  return problems.length > 0 ? { problems } : { table }
}

function parseFeeRule(path: string, { flat = '0', rate = '0' }: FeeRuleText, problems: string[]): FeeRule {
  const whole = parseDecimal(flat)
  if (whole?.denominator !== 1n) {
    problems.push(`${path}.flat: ${quote(flat)} is not a whole number of minor units`)
  }
  const share = parseDecimal(rate)
  if (share === undefined || share.numerator > share.denominator) {
    problems.push(`${path}.rate: ${quote(rate)} is not a decimal number from 0 to 1, such as "0.0135"`)
  }
  return { flat: whole?.numerator ?? 0n, rate: share ?? { numerator: 0n, denominator: 1n } }
}
