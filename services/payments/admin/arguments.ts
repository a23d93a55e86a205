import { maxAmount } from '../domain/money/money.ts'

/** The command line is invalid. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export function parseAmount(text: string | undefined): bigint {
  if (text === undefined) throw new UsageError('--amount is missing')
  const amount = /^\d{1,16}$/.test(text) ? BigInt(text) : 0n
  if (amount >= 1n && amount <= maxAmount) return amount
  throw new UsageError(`--amount ${text}: must be a whole number of minor units from 1 to ${maxAmount}`)
}

/** Returns the end of that day in UTC. */
export function parseDay(text: string): number {
  const endMs = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T23:59:59.999Z`) : Number.NaN
  if (!Number.isNaN(endMs)) return endMs
  throw new UsageError(`--due ${text}: must be a day such as 2026-07-24`)
}
