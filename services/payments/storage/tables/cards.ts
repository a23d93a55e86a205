import type { SavedCard } from '../../domain/merchant/card.ts'
import type { Tx } from '../storage.ts'
import { column, instant, type Row, Table } from '../table.ts'
import { card, cardReference } from './card-columns.ts'

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
