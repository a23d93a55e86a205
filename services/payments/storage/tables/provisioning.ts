import { type Tx, toDate } from '../storage.ts'

/** Locks the resource: other requests for the same Kubernetes resource wait until the transaction ends. */
export async function lockProvisioning(tx: Tx, uid: string): Promise<void> {
  await tx.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 2))', [uid])
}

interface KnownKey {
  readonly appId: string
  readonly expiresMs: number | null
}

const insertKey =
  'INSERT INTO app_keys (hash, app_id, created) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING'
const findKey = 'SELECT app_id, expires FROM app_keys WHERE hash = $1'

/** Inserts the key unless it exists. Returns the app that has the key, which can be another one. */
export async function addAppKey(
  tx: Tx,
  { appId, hash, nowMs }: { readonly appId: string; readonly hash: string; readonly nowMs: number },
): Promise<KnownKey> {
  const bytes = Buffer.from(hash, 'hex')
  await tx.query(insertKey, [bytes, appId, toDate(nowMs)])
  const [row] = await tx.query<{ app_id: string; expires: Date | null }>(findKey, [bytes])
  if (row === undefined) throw new Error('the inserted key was not found')
  return { appId: row.app_id, expiresMs: row.expires?.getTime() ?? null }
}

/** Records the previous resource of the merchant, if any, for `isHandedOver`. */
export async function claimMerchant(
  tx: Tx,
  { merchantId, uid, nowMs }: { readonly merchantId: string; readonly uid: string; readonly nowMs: number },
): Promise<void> {
  await tx.query(
    `INSERT INTO provisions_handed_over (uid, merchant_id, created)
     SELECT provision_uid, id, $2 FROM merchants WHERE id = $1 AND provision_uid IS NOT NULL FOR UPDATE`,
    [merchantId, toDate(nowMs)],
  )
  await tx.query('UPDATE merchants SET provision_uid = $2 WHERE id = $1', [merchantId, uid])
}

/** Returns whether the merchant of this Kubernetes resource was assigned to another resource. */
export async function isHandedOver(tx: Tx, uid: string): Promise<boolean> {
  const rows = await tx.query('SELECT uid FROM provisions_handed_over WHERE uid = $1', [uid])
  return rows.length > 0
}
