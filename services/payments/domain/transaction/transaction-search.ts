/** The longest range of time that one search covers. */
export const maxSearchDays = 366

/**
 * The states of parts of a transaction's amount. A transaction can have several: after a partial capture it
 * is both `pending` and `captured`.
 */
export const transactionStatuses = [
  'pending',
  'captured',
  'refunded',
  'voided',
  'disputed',
  /** Declined: none of the others. */
  'declined',
] as const
export type TransactionStatus = (typeof transactionStatuses)[number]

/** A range of time by which a list is filtered. Null filters nothing. */
export interface TimeRange {
  /** Milliseconds since the epoch, inclusive. */
  readonly fromMs: number | null
  /** Exclusive. At most `maxSearchDays` after `fromMs`. */
  readonly toMs: number | null
}

/** The filters of a search for transactions. Null filters nothing. */
export interface TransactionSearch extends TimeRange {
  readonly reference: string | null
  /** Fields of `custom`, at its first level, with their values as text. */
  readonly custom: Readonly<Record<string, string>> | null
  readonly status: TransactionStatus | null
}

/** The filters of a search for lines. Null filters nothing. */
export interface LineSearch extends TimeRange {
  readonly transactionId: string | null
}
