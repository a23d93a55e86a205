import { type Merchant, mutableMerchantFields } from '../../domain/merchant.ts'
import { firstId, type Tx } from '../storage.ts'
import {
  columnGroup,
  instantColumn,
  nullableInstantColumn,
  type Row,
  Table,
  type TableField,
  valueColumn,
} from '../table.ts'

const bank: TableField<Merchant['bank']> = {
  columns: ['iban'],
  write: value => [value?.iban ?? null],
  read: ({ iban }) => (typeof iban === 'string' ? { iban } : null),
}

export const merchantTable = new Table('merchants', {
  id: valueColumn<string>('id'),
  key: valueColumn<string>('key'),
  createdMs: instantColumn('created'),
  name: valueColumn<string | null>('name'),
  currency: valueColumn<string>('currency'),
  test: valueColumn<boolean>('test'),
  email: valueColumn<string>('email'),
  website: valueColumn<string>('website'),
  descriptor: valueColumn<string>('descriptor'),
  company: columnGroup({
    country: valueColumn<string>('country'),
    number: valueColumn<string | null>('company_number'),
  }),
  bank,
  closedMs: nullableInstantColumn('closed'),
})

const insert = merchantTable.insert(['provision_uid'])

/** @returns false, and stores nothing, if the Kubernetes resource `provisionUid` has a merchant already */
export async function insertMerchant(
  tx: Tx,
  merchant: Merchant,
  provisionUid: string | null = null,
): Promise<boolean> {
  const inserted = await tx.query(`${insert.sql} ON CONFLICT (provision_uid) DO NOTHING RETURNING id`, [
    ...insert.values(merchant),
    provisionUid,
  ])
  if (inserted.length === 0) return false
  await tx.query('INSERT INTO positions (owner) VALUES ($1)', [merchant.id])
  return true
}

export const findMerchant: (tx: Tx, id: string) => Promise<Merchant | undefined> = merchantTable.find

export function findMerchantByKey(tx: Tx, key: string): Promise<Merchant | undefined> {
  return find(tx, 'key = $1', key)
}

export function findMerchantByProvisionUid(tx: Tx, uid: string): Promise<Merchant | undefined> {
  return find(tx, 'provision_uid = $1', uid)
}

/** Returns the merchants by the uid of their Kubernetes resource. Omits resources without a merchant. */
export async function findMerchantsByProvisionUids(
  tx: Tx,
  uids: readonly string[],
): Promise<ReadonlyMap<string, Merchant>> {
  const rows = await tx.query<Row & { readonly provision_uid: string }>(
    `SELECT ${merchantTable.columns}, provision_uid FROM merchants WHERE provision_uid = ANY ($1::text[])`,
    [uids],
  )
  return new Map(rows.map(row => [row.provision_uid, merchantTable.read(row)]))
}

/** Returns the uids of Kubernetes resources by merchant id. Omits merchants without a resource. */
export async function findProvisionUids(
  tx: Tx,
  merchantIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await tx.query<{ readonly id: string; readonly provision_uid: string }>(
    'SELECT id, provision_uid FROM merchants WHERE id = ANY ($1::uuid[]) AND provision_uid IS NOT NULL',
    [merchantIds],
  )
  return new Map(rows.map(row => [row.id, row.provision_uid]))
}

/**
 * Returns the merchant, and locks the merchant, the balance and the lists until this database transaction
 * ends. To avoid deadlocks, take this lock after the locks of idempotency keys and transactions.
 */
export async function lockMerchant(tx: Tx, id: string): Promise<Merchant | undefined> {
  await tx.query('SELECT last FROM positions WHERE owner = $1 FOR UPDATE', [id])
  return find(tx, 'id = $1 FOR NO KEY UPDATE', id)
}

const update = merchantTable.update(...mutableMerchantFields, 'closedMs')

/** Stores `mutableMerchantFields` and the time when the merchant was closed. */
export async function updateMerchant(tx: Tx, merchant: Merchant): Promise<void> {
  await tx.query(update.sql, update.values(merchant))
}

/** @param afterId the last id of the previous part; null for the first part */
export async function listAllMerchants(
  tx: Tx,
  afterId: string | null,
  limit: number,
): Promise<readonly Merchant[]> {
  const rows = await tx.query<Row>(
    `SELECT ${merchantTable.columns} FROM merchants WHERE id > coalesce($1, '${firstId}'::uuid) ORDER BY id LIMIT $2`,
    [afterId, limit],
  )
  return rows.map(merchantTable.read)
}

async function find(tx: Tx, condition: string, value: string): Promise<Merchant | undefined> {
  const sql = `SELECT ${merchantTable.columns} FROM merchants WHERE ${condition}`
  const [row] = await tx.query<Row>(sql, [value])
  return row === undefined ? undefined : merchantTable.read(row)
}
