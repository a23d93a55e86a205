import { createHash } from 'node:crypto'
import { toDate } from '../sql-statements.ts'
import { onlyRow, type Tx } from '../storage.ts'

/** The subject whose invitations are counted together, over all processes. */
export type InvitationSubject =
  | { readonly app: string }
  | { readonly merchant: string }
  /** An e-mail address, whatever its letters' case. */
  | { readonly recipient: string }

/** Invitations are counted in windows of a day. A window begins with its first invitation. */
export const windowMs = 24 * 60 * 60 * 1000

const count = `INSERT INTO invitation_counts AS c (subject, since, count) VALUES ($1, $2, 1)
  ON CONFLICT (subject) DO UPDATE SET
    count = CASE WHEN c.since <= $3 THEN 1 ELSE c.count + 1 END,
    since = CASE WHEN c.since <= $3 THEN excluded.since ELSE c.since END
  WHERE c.since <= $3 OR c.count < $4 RETURNING c.count`

/**
 * Counts one invitation, unless the subject has as many as it may have. Others of the subject wait until this
 * transaction ends.
 *
 * @returns 0 when it was counted, else in how many milliseconds the next may be
 */
export async function countInvitation(
  tx: Tx,
  subject: InvitationSubject,
  { limit, nowMs }: { readonly limit: number; readonly nowMs: number },
): Promise<number> {
  const name = nameOf(subject)
  const counted = await tx.query(count, [name, toDate(nowMs), toDate(nowMs - windowMs), limit])
  if (counted.length > 0) return 0
  const rows = await tx.query<{ since: Date }>('SELECT since FROM invitation_counts WHERE subject = $1', [
    name,
  ])
  return Math.max(1, onlyRow(rows).since.getTime() + windowMs - nowMs)
}

function nameOf(subject: InvitationSubject): string {
  if ('app' in subject) return `app ${subject.app}`
  if ('merchant' in subject) return `merchant ${subject.merchant}`
  const address = subject.recipient.toLowerCase()
  return `recipient ${createHash('sha256').update(address, 'utf8').digest('base64url')}`
}
