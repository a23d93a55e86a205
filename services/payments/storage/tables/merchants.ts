import type { Merchant } from '../../domain/merchant/merchant.ts'
import { insertInto, toDate, toDateOrNull, toMsOrNull } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'

export interface MerchantRow {
  readonly id: string
  readonly key: string
  readonly created: Date
  readonly name: string | null
  readonly currency: string
  readonly test: boolean
  readonly email: string
  readonly website: string
  readonly descriptor: string
  readonly country: string
  readonly company_number: string | null
  readonly iban: string | null
  readonly closed: Date | null
}

const columns = [
  'id',
  'key',
  'created',
  'name',
  'currency',
  'test',
  'email',
  'website',
  'descriptor',
  'country',
  'company_number',
  'iban',
  'closed',
]
export const merchantColumns = columns.map(column => `merchants.${column}`).join(', ')

export function merchantOf(row: MerchantRow): Merchant {
  const { id, key, name, currency, test, email, website, descriptor, country, iban } = row
  return {
    id,
    key,
    createdMs: row.created.getTime(),
    name,
    currency,
    test,
    email,
    website,
    descriptor,
    company: { country, number: row.company_number },
    bank: iban === null ? null : { iban },
    closedMs: toMsOrNull(row.closed),
  }
}

/**
 * Inserts a merchant, and begins its lists.
 *
 * @param provisionUid names the resource that the merchant is made for; null for none
 * @returns false, with nothing stored, when there is a merchant of that resource already
 */
export async function insertMerchant(
  tx: Tx,
  merchant: Merchant,
  provisionUid: string | null = null,
): Promise<boolean> {
  const { company, bank } = merchant
  const inserted = await tx.query(
    `${insertInto('merchants', [...columns, 'provision_uid'])} ON CONFLICT (provision_uid) DO NOTHING RETURNING id`,
    [
      merchant.id,
      merchant.key,
      toDate(merchant.createdMs),
      merchant.name,
      merchant.currency,
      merchant.test,
      merchant.email,
      merchant.website,
      merchant.descriptor,
      company.country,
      company.number,
      bank === null ? null : bank.iban,
      toDateOrNull(merchant.closedMs),
      provisionUid,
    ],
  )
  if (inserted.length === 0) return false
  await tx.query('INSERT INTO positions (owner) VALUES ($1)', [merchant.id])
  return true
}

export function findMerchant(tx: Tx, id: string): Promise<Merchant | undefined> {
  return find(tx, 'id = $1', id)
}

/** Returns the merchant with the public key of its links. */
export function findMerchantByKey(tx: Tx, key: string): Promise<Merchant | undefined> {
  return find(tx, 'key = $1', key)
}

export function findMerchantByProvisionUid(tx: Tx, uid: string): Promise<Merchant | undefined> {
  return find(tx, 'provision_uid = $1', uid)
}

/** Returns the merchants of resources by the uids of these. */
export async function findMerchantsByProvisionUids(
  tx: Tx,
  uids: readonly string[],
): Promise<ReadonlyMap<string, Merchant>> {
  const rows = await tx.query<MerchantRow & { readonly provision_uid: string }>(
    `SELECT ${merchantColumns}, provision_uid FROM merchants WHERE provision_uid = ANY ($1::text[])`,
    [uids],
  )
  return new Map(rows.map(row => [row.provision_uid, merchantOf(row)]))
}

/** Returns the uids of the resources of merchants by the ids of these. Merchants without one are left out. */
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
 * Nothing moves the merchant's balance, or adds to its lists, until this transaction ends. Comes after the
 * locks of idempotency keys and transactions.
 */
export async function lockMerchant(tx: Tx, id: string): Promise<Merchant | undefined> {
  await tx.query('SELECT last FROM positions WHERE owner = $1 FOR UPDATE', [id])
  return find(tx, 'id = $1 FOR NO KEY UPDATE', id)
}

/** Stores the fields that change: name, e-mail, descriptor, and when it was closed. */
export async function updateMerchant(tx: Tx, merchant: Merchant): Promise<void> {
  await tx.query('UPDATE merchants SET name = $2, email = $3, descriptor = $4, closed = $5 WHERE id = $1', [
    merchant.id,
    merchant.name,
    merchant.email,
    merchant.descriptor,
    toDateOrNull(merchant.closedMs),
  ])
}

async function find(tx: Tx, condition: string, value: string): Promise<Merchant | undefined> {
  const sql = `SELECT ${merchantColumns} FROM merchants WHERE ${condition}`
  const [row] = await tx.query<MerchantRow>(sql, [value])
  return row === undefined ? undefined : merchantOf(row)
}
