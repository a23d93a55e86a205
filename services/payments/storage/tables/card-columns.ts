import type { CardDetails, CardReference, CardScheme } from '../../domain/merchant/card.ts'
import type { SqlValue } from '../storage.ts'

/** The columns of a card: its known details and the processor's token. Never its number. */
export interface CardRow {
  readonly card_bin: string
  readonly card_last4: string
  readonly card_expiry_year: number
  readonly card_expiry_month: number
  readonly card_scheme: CardScheme
  readonly card_token: string
  readonly card_fingerprint: string
}

export const cardColumns = [
  'card_bin',
  'card_last4',
  'card_expiry_year',
  'card_expiry_month',
  'card_scheme',
  'card_token',
  'card_fingerprint',
] as const

export function cardValues(card: CardDetails, reference: CardReference): readonly SqlValue[] {
  const { bin, last4, expiry, scheme } = card
  return [bin, last4, expiry.year, expiry.month, scheme, reference.token, reference.fingerprint]
}

export function cardOf(row: CardRow): { readonly card: CardDetails; readonly cardReference: CardReference } {
  return {
    card: {
      bin: row.card_bin,
      last4: row.card_last4,
      expiry: { year: row.card_expiry_year, month: row.card_expiry_month },
      scheme: row.card_scheme,
    },
    cardReference: { token: row.card_token, fingerprint: row.card_fingerprint },
  }
}
