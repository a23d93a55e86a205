import { byIndex, onlyRow, type Tx, toDate, violates } from '../storage.ts'

/** The answer of a request, or the marker of a request in progress. */
export interface KeyRow {
  readonly fingerprint: Uint8Array
  readonly state: 'in-progress' | 'done'
  readonly owner: string | null
  readonly lease_until: Date | null
  readonly reference: string | null
  readonly status: number | null
  readonly body: Uint8Array | null
  readonly sealed: boolean
}

interface StoredKey extends KeyRow {
  readonly expires: Date
}

export interface KeyId {
  readonly scope: string
  readonly hash: Uint8Array
}

const columns = 'k.fingerprint, k.state, k.owner, k.lease_until, k.reference, k.status, k.body, k.sealed'

const lockAndFind = `SELECT pg_try_advisory_xact_lock($1) AS locked, ${columns}
  FROM (VALUES (0)) AS one LEFT JOIN idempotency_keys k
    ON k.scope = $2 AND k.key_hash = $3 AND k.expires > $4`

/**
 * Takes the lock of the key until the end of this transaction, and returns the key's row. Does not wait:
 * returns `locked-by-other` if another transaction has the lock.
 *
 * The row may have been read just before the lock was taken. If it is out of date, a later `saveAnswer`
 * fails.
 */
export async function lockKey(
  tx: Tx,
  lockId: bigint,
  { scope, hash }: KeyId,
  nowMs: number,
): Promise<'locked-by-other' | KeyRow | undefined> {
  const rows = await tx.query<KeyRow & { readonly locked: boolean }>(lockAndFind, [
    lockId,
    scope,
    hash,
    toDate(nowMs),
  ])
  const row = onlyRow(rows)
  if (!row.locked) return 'locked-by-other'
  return row.state === null ? undefined : row
}

interface SavedAnswer {
  readonly fingerprint: Uint8Array
  readonly status: number
  readonly body: Uint8Array
  readonly sealed: boolean
}

/**
 * Sets the invalid state `overtaken`, which a check of the table rejects, if the answer would replace another
 * valid answer or the marker of another process.
 */
const save = `INSERT INTO idempotency_keys AS k
    (scope, key_hash, fingerprint, state, status, body, sealed, created, expires)
  VALUES ($1, $2, $3, 'done', $4, $5, $6, $7, $8)
  ON CONFLICT (scope, key_hash) DO UPDATE SET fingerprint = excluded.fingerprint,
    state = CASE WHEN k.expires <= $7 OR k.owner = $9 THEN 'done' ELSE 'overtaken' END,
    owner = NULL, lease_until = NULL, reference = NULL, status = excluded.status, body = excluded.body,
    sealed = excluded.sealed, created = excluded.created, expires = excluded.expires`
const overtaken = 'idempotency_keys_state'

/**
 * Saves the answer. The transaction fails if the key has another answer that has not expired, or the marker
 * of another process; `isOvertaken` recognises that error.
 *
 * @param owner the owner of the marker that the answer replaces; null if there is none
 */
export function saveAnswer(
  tx: Tx,
  { scope, hash }: KeyId,
  answer: SavedAnswer,
  times: { readonly nowMs: number; readonly expiresMs: number },
  owner: string | null,
): void {
  tx.send(save, [
    scope,
    hash,
    answer.fingerprint,
    answer.status,
    answer.body,
    answer.sealed,
    toDate(times.nowMs),
    toDate(times.expiresMs),
    owner,
  ])
}

export function isOvertaken(error: unknown): boolean {
  return violates(error, overtaken)
}

interface Marker {
  readonly owner: string
  readonly reference: string
  readonly leaseUntilMs: number
}

/**
 * Inserts a marker, or takes over an existing row: an expired answer, a marker of the same owner, or, after
 * the lease, a marker of the same request. A marker keeps its reference until the outcome is known.
 */
const mark = `INSERT INTO idempotency_keys AS k
    (scope, key_hash, fingerprint, state, owner, lease_until, reference, created, expires)
  VALUES ($1, $2, $3, 'in-progress', $4, $5, $6, $7, $8)
  ON CONFLICT (scope, key_hash) DO UPDATE SET
    reference = CASE WHEN k.state = 'in-progress' THEN k.reference ELSE excluded.reference END,
    fingerprint = excluded.fingerprint, state = 'in-progress', owner = excluded.owner,
    lease_until = excluded.lease_until, status = NULL, body = NULL, sealed = false,
    created = excluded.created, expires = excluded.expires
  WHERE (k.state = 'done' AND k.expires <= $7) OR k.owner = $4
    OR (k.state = 'in-progress' AND k.lease_until <= $7 AND k.fingerprint IN ($3, $9))
  RETURNING k.reference`

const find = `SELECT ${columns} FROM idempotency_keys k WHERE k.scope = $1 AND k.key_hash = $2`
const findWithExpiry = find.replace('SELECT', 'SELECT k.expires,')

/**
 * Stores a marker that the request is in progress. Takes over the marker of the same request, with its
 * reference, after the lease of the earlier process has expired.
 *
 * @returns the reference of the marker, or the row that prevents the marker
 */
export async function markKey(
  tx: Tx,
  { scope, hash }: KeyId,
  [fingerprint, earlier = fingerprint]: readonly [Uint8Array, ...Uint8Array[]],
  marker: Marker,
  times: { readonly nowMs: number; readonly expiresMs: number },
): Promise<{ readonly reference: string } | { readonly row: KeyRow }> {
  const [marked] = await tx.query<{ reference: string }>(mark, [
    scope,
    hash,
    fingerprint,
    marker.owner,
    toDate(marker.leaseUntilMs),
    marker.reference,
    toDate(times.nowMs),
    toDate(times.expiresMs),
    earlier,
  ])
  if (marked !== undefined) return marked
  return { row: onlyRow(await tx.query<KeyRow>(find, [scope, hash])) }
}

/** Returns the row of the key, even if it has expired. */
export async function findKey(tx: Tx, { scope, hash }: KeyId): Promise<StoredKey | undefined> {
  const [row] = await tx.query<StoredKey>(findWithExpiry, [scope, hash])
  return row
}

/** Returns the row of the key, expired or not, and locks it until the end of this transaction. */
export async function lockMarkedKey(tx: Tx, { scope, hash }: KeyId): Promise<KeyRow | undefined> {
  const [row] = await tx.query<KeyRow>(`${find} FOR UPDATE`, [scope, hash])
  return row
}

/** Lets a repetition of the request continue at once with the same reference. */
export async function endLease(tx: Tx, { scope, hash }: KeyId, owner: string, nowMs: number): Promise<void> {
  await tx.query(
    `UPDATE idempotency_keys SET lease_until = $4
     WHERE scope = $1 AND key_hash = $2 AND owner = $3 AND state = 'in-progress'`,
    [scope, hash, owner, toDate(nowMs)],
  )
}

/** Removes the marker of a request that had no effect, so that the key is free at once. */
export async function removeMarker(tx: Tx, { scope, hash }: KeyId, owner: string): Promise<void> {
  await tx.query('DELETE FROM idempotency_keys WHERE scope = $1 AND key_hash = $2 AND owner = $3', [
    scope,
    hash,
    owner,
  ])
}

/**
 * Removes expired keys. A key of a request with an authorisation of unknown outcome is kept until the sweep
 * of authorisations has settled it.
 *
 * @returns the number of removed rows; fewer than `limit` if no more have expired
 */
export async function removeExpiredKeys(tx: Tx, nowMs: number, limit: number): Promise<number> {
  const rows = await tx.query(
    `DELETE FROM idempotency_keys WHERE (scope, key_hash) IN (
       SELECT scope, key_hash FROM idempotency_keys k
       WHERE expires <= $1 AND (state = 'done'
         OR NOT EXISTS (SELECT FROM authorisation_attempts a WHERE a.reference = k.reference ${byIndex}))
       ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED
     ) RETURNING state`,
    [toDate(nowMs), limit],
  )
  return rows.length
}
