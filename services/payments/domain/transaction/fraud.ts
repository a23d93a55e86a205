/** A report by a card scheme or a bank that a transaction was fraudulent. */
export interface FraudAlert {
  readonly id: string
  readonly merchantId: string
  readonly transactionId: string
  readonly createdMs: number
  /** When the payer's bank reported the fraud; null if that is not known. */
  readonly reportedMs: number | null
  /** An index of `fraudReasons`; null if no reason was given. */
  readonly reason: number | null
}

/** The reasons that card schemes give. The code of a reason is its index. */
const fraudReasons = [
  'miscellaneous',
  'fraudulent usage',
  'fraudulent application',
  'counterfeit card',
  'account take-over',
  'card not delivered',
  'stolen card',
  'lost card',
  'manipulated payment',
] as const

export function isFraudReason(value: unknown): value is number {
  return typeof value === 'number' && fraudReasons[value] !== undefined
}
