import type { KeyId } from '../idempotency/idempotency-keys.ts'
import { type Tx, toDate } from '../storage.ts'
import { columnGroup, type Row, Table, valueColumn } from '../table.ts'

/** An authorisation that may have reached the processor, but whose outcome is not stored yet. */
interface AuthorisationAttempt {
  /** The operation id of the call to the processor. The resulting transaction has the same id. */
  readonly reference: string
  readonly keyId: KeyId
  readonly merchantId: string
  readonly test: boolean
  readonly amount: bigint
  readonly currency: string
}

const attempts = new Table('authorisation_attempts', {
  reference: valueColumn<string>('reference'),
  keyId: columnGroup({ scope: valueColumn<string>('scope'), hash: valueColumn<Uint8Array>('key_hash') }),
  merchantId: valueColumn<string>('merchant_id'),
  test: valueColumn<boolean>('test'),
  amount: valueColumn<bigint>('amount'),
  currency: valueColumn<string>('currency'),
})
const insert = attempts.insert(['created', 'due'])

/** Ignores a repeated attempt with the same reference. `dueMs` is when the sweep checks the attempt. */
export async function insertAttempt(
  tx: Tx,
  attempt: AuthorisationAttempt,
  { nowMs, dueMs }: { readonly nowMs: number; readonly dueMs: number },
): Promise<void> {
  const values = [...insert.values(attempt), toDate(nowMs), toDate(dueMs)]
  await tx.query(`${insert.sql} ON CONFLICT (reference) DO NOTHING`, values)
}

/** Removes an attempt that was stored as a transaction or cancelled. Ignores an unknown reference. */
export async function removeAttempt(tx: Tx, reference: string): Promise<void> {
  await tx.query('DELETE FROM authorisation_attempts WHERE reference = $1', [reference])
}

export interface DueAttempt extends AuthorisationAttempt {
  /** The number of checks by the sweep of authorisations, including the current one. */
  readonly tries: number
}

const claim = `UPDATE authorisation_attempts SET tries = tries + 1, due = $2
  WHERE reference IN (
    SELECT reference FROM authorisation_attempts WHERE due <= $1 ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
  )
  RETURNING ${attempts.columns}, tries`

/** Claims due attempts: no other process gets them before `leaseUntilMs`. */
export async function claimDueAttempts(
  tx: Tx,
  nowMs: number,
  leaseUntilMs: number,
  limit: number,
): Promise<readonly DueAttempt[]> {
  const rows = await tx.query<Row & { readonly tries: number }>(claim, [
    toDate(nowMs),
    toDate(leaseUntilMs),
    limit,
  ])
  return rows.map(row => ({ ...attempts.read(row), tries: row.tries }))
}

/** @param dueMs when the sweep of authorisations checks the attempt again */
export async function postponeAttempt(tx: Tx, reference: string, dueMs: number): Promise<void> {
  await tx.query('UPDATE authorisation_attempts SET due = $2 WHERE reference = $1', [
    reference,
    toDate(dueMs),
  ])
}

const findPayment = 'SELECT FROM transactions WHERE id = $1'
const lockMarker = `SELECT lease_until > $4 AS running FROM idempotency_keys
  WHERE scope = $1 AND key_hash = $2 AND reference = $3 FOR UPDATE`
const removeMarker = 'DELETE FROM idempotency_keys WHERE scope = $1 AND key_hash = $2 AND reference = $3'

/**
 * Removes the idempotency key's marker with this reference, so that no process can store a payment with the
 * reference afterwards.
 *
 * @returns `abandoned` if the attempt can no longer be stored. `running` if a process works on the request,
 *   and `recorded` if the payment is stored; nothing is changed in these cases
 */
export async function abandonAttempt(
  tx: Tx,
  { reference, keyId: { scope, hash } }: AuthorisationAttempt,
  nowMs: number,
): Promise<'running' | 'recorded' | 'abandoned'> {
  const [marker] = await tx.query<{ running: boolean }>(lockMarker, [scope, hash, reference, toDate(nowMs)])
  if (marker?.running === true) return 'running'
  // This query must come after the lock of the marker, because a process holds that lock while it stores the
  // payment.
  if ((await tx.query(findPayment, [reference])).length > 0) return 'recorded'
  await tx.query(removeMarker, [scope, hash, reference])
  return 'abandoned'
}
