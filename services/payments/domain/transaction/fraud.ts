/** A report by a scheme or a bank that a transaction was fraudulent. */
export interface FraudAlert {
  readonly id: string
  readonly merchantId: string
  readonly transactionId: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  /** When the payer's bank reported it, if that is known. */
  readonly reportedMs: number | null
  /** An index of `fraudReasons`, if one was given. */
  readonly reason: number | null
}

/** The reasons that schemes give, by their codes. */
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
