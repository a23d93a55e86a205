import type { CardDetails, CardReference, CardScheme } from '../../domain/merchant/card.ts'
import { column, type Field, object } from '../table.ts'

/** The known details of a card. Never its number. */
export const card: Field<CardDetails> = object({
  bin: column<string>('card_bin'),
  last4: column<string>('card_last4'),
  expiry: object({ year: column<number>('card_expiry_year'), month: column<number>('card_expiry_month') }),
  scheme: column<CardScheme>('card_scheme'),
})

export const cardReference: Field<CardReference> = object({
  token: column<string>('card_token'),
  fingerprint: column<string>('card_fingerprint'),
})
