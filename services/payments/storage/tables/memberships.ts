import type { App, User } from '../../domain/merchant.ts'
import { type ListPage, type ListSource, listPage, type PageQuery } from '../list-page.ts'
import { onlyRow, type Tx, toDate } from '../storage.ts'
import { appColumns, insertIdentity, toApp } from './apps.ts'

interface UserRow {
  readonly id: string
  readonly email: string
  readonly created: Date
}

const userColumns = 'users.id, users.email, identities.created'
/** The id of a user as a member of this merchant. It reveals nothing of memberships of other merchants. */
const memberId = 'coalesce(m.member_id, m.user_id)'
const memberColumns = `${memberId} AS id, coalesce(m.email, users.email) AS email, m.invited AS created`
const members = 'merchant_users m JOIN users ON users.id = m.user_id'

function toUser({ id, email, created }: UserRow): User {
  return { id, email, createdMs: created.getTime() }
}

/** Finds a user by the address, ignoring case. Inserts `user` if no user has the address. */
export async function findOrInsertUser(
  tx: Tx,
  user: User,
): Promise<{ readonly user: User; readonly isNew: boolean }> {
  // If a new address is invited twice at the same time, the second transaction waits here, and finds the user
  // that the first one inserted.
  await tx.query('SELECT pg_advisory_xact_lock(hashtextextended(lower($1), 1))', [user.email])
  const [row] = await tx.query<UserRow>(
    `SELECT ${userColumns} FROM users JOIN identities USING (id) WHERE lower(users.email) = lower($1)`,
    [user.email],
  )
  if (row !== undefined) return { user: toUser(row), isNew: false }
  await insertIdentity(tx, user.id, 'user', user.createdMs)
  await tx.query('INSERT INTO users (id, email) VALUES ($1, $2)', [user.id, user.email])
  return { user, isNew: true }
}

/**
 * Inserts at the next position of two lists: the list of the merchant ($1) and the list of the app or user
 * ($2).
 */
function insertMembership(table: string, identityColumn: string, more: string, moreValues: string): string {
  return `WITH place AS (UPDATE positions SET last = last + 1 WHERE owner = $1 RETURNING last),
      identity_place AS (UPDATE positions SET last = last + 1 WHERE owner = $2 RETURNING last)
    INSERT INTO ${table} (merchant_id, ${identityColumn}, position, identity_position${more})
    VALUES ($1, $2, (SELECT last FROM place), (SELECT last FROM identity_place)${moreValues})
    ON CONFLICT (merchant_id, ${identityColumn}) DO NOTHING RETURNING position`
}

const insertMerchantApp = insertMembership('merchant_apps', 'app_id', '', '')
const insertMerchantUser = insertMembership(
  'merchant_users',
  'user_id',
  ', invited, member_id, email',
  ', $3, $4, $5',
)

/** @returns false if the app has access to the merchant already */
export async function addMerchantApp(tx: Tx, merchantId: string, appId: string): Promise<boolean> {
  return (await tx.query(insertMerchantApp, [merchantId, appId])).length > 0
}

/** @returns false if the app has no access to the merchant */
export async function removeMerchantApp(tx: Tx, merchantId: string, appId: string): Promise<boolean> {
  const sql = 'DELETE FROM merchant_apps WHERE merchant_id = $1 AND app_id = $2 RETURNING app_id'
  return (await tx.query(sql, [merchantId, appId])).length > 0
}

/** @param member how the merchant sees the user; the id is only for this membership */
export async function addMerchantUser(
  tx: Tx,
  merchantId: string,
  userId: string,
  { id, email, createdMs }: User,
): Promise<{ readonly member: User; readonly isNew: boolean }> {
  const inserted = await tx.query(insertMerchantUser, [merchantId, userId, toDate(createdMs), id, email])
  const rows = await tx.query<UserRow>(
    `SELECT ${memberColumns} FROM ${members} WHERE m.merchant_id = $1 AND m.user_id = $2`,
    [merchantId, userId],
  )
  return { member: toUser(onlyRow(rows)), isNew: inserted.length > 0 }
}

/** @returns false if the merchant has no member with this id */
export async function removeMerchantUser(tx: Tx, merchantId: string, id: string): Promise<boolean> {
  const sql = `DELETE FROM merchant_users m WHERE m.merchant_id = $1 AND ${memberId} = $2 RETURNING m.user_id`
  return (await tx.query(sql, [merchantId, id])).length > 0
}

const appsOfMerchant: ListSource<Parameters<typeof toApp>[0], App> = {
  columns: appColumns,
  from: 'merchant_apps m JOIN apps ON apps.id = m.app_id JOIN identities ON identities.id = apps.id',
  owner: 'm.merchant_id',
  id: 'm.app_id',
  position: 'm.position',
  item: toApp,
}

export function listMerchantApps(tx: Tx, merchantId: string, page: PageQuery): Promise<ListPage<App>> {
  return listPage(tx, appsOfMerchant, merchantId, page)
}

const usersOfMerchant: ListSource<UserRow, User> = {
  columns: memberColumns,
  from: members,
  owner: 'm.merchant_id',
  id: memberId,
  position: 'm.position',
  item: toUser,
}

export function listMerchantUsers(tx: Tx, merchantId: string, page: PageQuery): Promise<ListPage<User>> {
  return listPage(tx, usersOfMerchant, merchantId, page)
}
