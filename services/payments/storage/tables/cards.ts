import type { CardDetails, CardReference, CardScheme, SavedCard } from '../../domain/merchant/card.ts'
import type { Tx } from '../storage.ts'
import { column, type Field, instant, object, type Row, Table } from '../table.ts'

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

const cards = new Table('cards', {
  merchantId: column<string>('merchant_id'),
  id: column<string>('id'),
  createdMs: instant('created'),
  card,
  reference: cardReference,
  notes: column<string | null>('notes'),
})

const insert = cards.insertAtNextPosition()

/** Holds the merchant's lists until this database transaction ends. */
export async function insertCard(tx: Tx, card: SavedCard): Promise<void> {
  await tx.query(insert.sql, insert.values(card))
}

export async function findCard(tx: Tx, id: string): Promise<SavedCard | undefined> {
  const [row] = await tx.query<Row>(`SELECT ${cards.columns} FROM cards WHERE id = $1`, [id])
  return row === undefined ? undefined : cards.read(row)
}
