import type { CardDetails, CardReference, CardScheme, SavedCard } from '../../domain/card.ts'
import type { Tx } from '../storage.ts'
import { columnGroup, instantColumn, Table, type TableField, valueColumn } from '../table.ts'

export const card: TableField<CardDetails> = columnGroup({
  bin: valueColumn<string>('card_bin'),
  last4: valueColumn<string>('card_last4'),
  expiry: columnGroup({
    year: valueColumn<number>('card_expiry_year'),
    month: valueColumn<number>('card_expiry_month'),
  }),
  scheme: valueColumn<CardScheme>('card_scheme'),
})

export const cardReference: TableField<CardReference> = columnGroup({
  token: valueColumn<string>('card_token'),
  fingerprint: valueColumn<string>('card_fingerprint'),
})

const cards = new Table('cards', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  createdMs: instantColumn('created'),
  card,
  reference: cardReference,
  notes: valueColumn<string | null>('notes'),
})

const insert = cards.insertAtNextPosition()

/** Inserts a card. Locks the merchant's lists until the end of this database transaction. */
export async function insertCard(tx: Tx, card: SavedCard): Promise<void> {
  await tx.query(insert.sql, insert.values(card))
}

export const findCard: (tx: Tx, id: string) => Promise<SavedCard | undefined> = cards.find
