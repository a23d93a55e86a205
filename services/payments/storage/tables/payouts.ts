import { firstId, onlyRow, type Tx } from '../storage.ts'

/** Records that a merchant was paid out for a period. A period is any name, such as a date. */
interface PayoutRecord {
  readonly merchantId: string
  readonly period: string
  readonly lineId: string
}

const insert = 'INSERT INTO payouts (merchant_id, period, line_id) VALUES ($1, $2, $3)'

/** @throws StorageError `constraint` `payouts_once` if the merchant was paid out for the period already */
export async function insertPayout(tx: Tx, { merchantId, period, lineId }: PayoutRecord): Promise<void> {
  await tx.query(insert, [merchantId, period, lineId])
}

/**
 * Returns whether the merchant was paid out for the period. The result cannot change while the caller has the
 * merchant locked.
 */
export async function hasPayout(tx: Tx, merchantId: string, period: string): Promise<boolean> {
  const rows = await tx.query<{ known: boolean }>(
    'SELECT EXISTS (SELECT FROM payouts WHERE merchant_id = $1 AND period = $2) AS known',
    [merchantId, period],
  )
  return onlyRow(rows).known
}

/** Returns ids after `afterId` of merchants with a bank account, a balance above zero and no payout yet. */
export async function listMerchantsToPay(
  tx: Tx,
  period: string,
  afterId: string | null,
  limit: number,
): Promise<readonly string[]> {
  const rows = await tx.query<{ id: string }>(
    `SELECT m.id FROM merchants m
     WHERE m.iban IS NOT NULL AND m.id > coalesce($2, '${firstId}'::uuid)
       AND NOT EXISTS (SELECT FROM payouts p WHERE p.merchant_id = m.id AND p.period = $1)
       AND (SELECT sum(amount) FROM ledger_postings p
            WHERE p.account = 'merchant' AND p.merchant_id = m.id AND p.currency = m.currency) > 0
     ORDER BY m.id LIMIT $3`,
    [period, afterId, limit],
  )
  return rows.map(row => row.id)
}
