import { timingSafeEqual } from 'node:crypto'
import { type App, type AppKey, isInForce } from '../../domain/merchant.ts'
import { type Tx, toDate } from '../storage.ts'

export async function insertApp(tx: Tx, app: App): Promise<void> {
  await insertIdentity(tx, app.id, 'app', app.createdMs)
  await tx.query('INSERT INTO apps (id, name) VALUES ($1, $2)', [app.id, app.name])
}

/** Inserts an identity, which is an app or a user, with an empty list of merchants. */
export async function insertIdentity(
  tx: Tx,
  id: string,
  kind: 'app' | 'user',
  createdMs: number,
): Promise<void> {
  await tx.query('INSERT INTO identities (id, kind, created) VALUES ($1, $2, $3)', [
    id,
    kind,
    toDate(createdMs),
  ])
  await tx.query('INSERT INTO positions (owner) VALUES ($1)', [id])
}

/** @throws StorageError `constraint` `app_keys_pkey` if an app has this key already */
export async function insertAppKey(tx: Tx, key: AppKey): Promise<void> {
  await tx.query('INSERT INTO app_keys (hash, app_id, created, expires) VALUES ($1, $2, $3, $4)', [
    Buffer.from(key.hash, 'hex'),
    key.appId,
    toDate(key.createdMs),
    key.expiresMs === null ? null : toDate(key.expiresMs),
  ])
}

/** Keeps the key with `keepHash`. A key that expires earlier is not changed. */
export async function expireAppKeys(tx: Tx, appId: string, atMs: number, keepHash?: string): Promise<void> {
  await tx.query(
    `UPDATE app_keys SET expires = least(expires, $2)
     WHERE app_id = $1 AND hash IS DISTINCT FROM $3::bytea`,
    [appId, toDate(atMs), keepHash === undefined ? null : Buffer.from(keepHash, 'hex')],
  )
}

interface AppRow {
  readonly id: string
  readonly name: string | null
  readonly created: Date
}

interface KeyRow extends AppRow {
  readonly hash: Uint8Array
  readonly key_created: Date
  readonly expires: Date | null
}

export const appColumns = 'apps.id, apps.name, identities.created'
const appTables = 'apps JOIN identities ON identities.id = apps.id'

export function toApp({ id, name, created }: AppRow): App {
  return { id, name, createdMs: created.getTime() }
}

/**
 * Returns the app whose key has this hash, unless the key has expired. The query finds candidates by the
 * first 8 bytes of the hash; the whole hash is compared in constant time, so that response times reveal
 * nothing.
 */
export async function findAppByKeyHash(tx: Tx, hash: string, nowMs: number): Promise<App | undefined> {
  const wanted = Buffer.from(hash, 'hex')
  const rows = await tx.query<KeyRow>(
    `SELECT ${appColumns}, app_keys.hash, app_keys.created AS key_created, app_keys.expires
     FROM app_keys JOIN apps ON apps.id = app_keys.app_id JOIN identities ON identities.id = apps.id
     WHERE substring(app_keys.hash FROM 1 FOR 8) = $1`,
    [wanted.subarray(0, 8)],
  )
  const row = rows.find(candidate => timingSafeEqual(candidate.hash, wanted))
  if (row === undefined) return undefined
  const expiresMs = row.expires?.getTime() ?? null
  const key = { appId: row.id, hash, createdMs: row.key_created.getTime(), expiresMs }
  return isInForce(key, nowMs) ? toApp(row) : undefined
}

export async function findApp(tx: Tx, id: string): Promise<App | undefined> {
  const [row] = await tx.query<AppRow>(`SELECT ${appColumns} FROM ${appTables} WHERE apps.id = $1`, [id])
  return row === undefined ? undefined : toApp(row)
}
