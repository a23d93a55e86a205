import type { SavedCard } from '../../domain/merchant/card.ts'
import { insertAtNextPosition, toDate } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'
import { type CardRow, cardColumns, cardOf, cardValues } from './card-columns.ts'

interface SavedCardRow extends CardRow {
  readonly id: string
  readonly merchant_id: string
  readonly created: Date
  readonly notes: string | null
}

const columns = ['merchant_id', 'id', 'created', ...cardColumns, 'notes']

function savedCardOf(row: SavedCardRow): SavedCard {
  const { id, merchant_id: merchantId, created, notes } = row
  const { card, cardReference: reference } = cardOf(row)
  return { id, merchantId, createdMs: created.getTime(), card, reference, notes }
}

const insert = insertAtNextPosition('cards', columns)

/** Holds the merchant's lists until this database transaction ends. */
export async function insertCard(tx: Tx, card: SavedCard): Promise<void> {
  await tx.query(insert, [
    card.merchantId,
    card.id,
    toDate(card.createdMs),
    ...cardValues(card.card, card.reference),
    card.notes,
  ])
}

export async function findCard(tx: Tx, id: string): Promise<SavedCard | undefined> {
  const [row] = await tx.query<SavedCardRow>(`SELECT ${columns.join(', ')} FROM cards WHERE id = $1`, [id])
  return row === undefined ? undefined : savedCardOf(row)
}
