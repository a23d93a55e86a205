import { createHash } from 'node:crypto'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { onlyRow, type Tx, toDate } from '../storage.ts'
import { instantColumn, jsonColumn, type Row, Table, valueColumn } from '../table.ts'

/** A mail to be sent at least once, stored in the transaction that causes it. */
export interface Mail {
  readonly id: string
  readonly createdMs: number
  /** The name of its text, which `content` completes. */
  readonly template: string
  readonly recipient: string
  readonly content: JsonObject
  /** The number of attempts, including the current one. */
  readonly attempts: number
}

const mails = new Table('mails', {
  id: valueColumn<string>('id'),
  createdMs: instantColumn('created'),
  template: valueColumn<string>('template'),
  recipient: valueColumn<string>('recipient'),
  content: jsonColumn<JsonObject>('content'),
})
const insert = mails.insert(['due'])

/** Stores a mail that is due immediately. */
export async function insertMail(tx: Tx, mail: Omit<Mail, 'attempts'>): Promise<void> {
  await tx.query(insert.sql, [...insert.values(mail), toDate(mail.createdMs)])
}

/**
 * Claims due mails for this process alone until `leaseUntilMs`. Then they are due again, since the process
 * may have ended.
 */
export async function claimDueMails(
  tx: Tx,
  nowMs: number,
  leaseUntilMs: number,
  limit: number,
): Promise<readonly Mail[]> {
  const rows = await tx.query<Row & { readonly attempts: number }>(
    `UPDATE mails SET attempts = attempts + 1, due = $2 WHERE id IN (
       SELECT id FROM mails WHERE due <= $1 AND sent IS NULL AND given_up IS NULL ORDER BY due LIMIT $3
       FOR UPDATE SKIP LOCKED
     ) RETURNING ${mails.columns}, attempts`,
    [toDate(nowMs), toDate(leaseUntilMs), limit],
  )
  return rows.map(row => ({ ...mails.read(row), attempts: row.attempts }))
}

export async function markMailSent(tx: Tx, id: string, sentMs: number): Promise<void> {
  await tx.query('UPDATE mails SET sent = $2 WHERE id = $1', [id, toDate(sentMs)])
}

/** @param dueMs the time of the next try */
export async function postponeMail(tx: Tx, id: string, dueMs: number): Promise<void> {
  await tx.query('UPDATE mails SET due = $2 WHERE id = $1', [id, toDate(dueMs)])
}

export async function giveUpMail(tx: Tx, id: string, atMs: number): Promise<void> {
  await tx.query('UPDATE mails SET given_up = $2 WHERE id = $1', [id, toDate(atMs)])
}

/** Invitations are counted by subject, over all processes. */
type InvitationSubject =
  | { readonly app: string }
  | { readonly merchant: string }
  /** An e-mail address, whatever its letters' case. */
  | { readonly recipient: string }

/** Invitations are counted in windows of a day. A window begins with its first invitation. */
const windowMs = 24 * 60 * 60 * 1000

const count = `INSERT INTO invitation_counts AS c (subject, since, count) VALUES ($1, $2, 1)
  ON CONFLICT (subject) DO UPDATE SET
    count = CASE WHEN c.since <= $3 THEN 1 ELSE c.count + 1 END,
    since = CASE WHEN c.since <= $3 THEN excluded.since ELSE c.since END
  WHERE c.since <= $3 OR c.count < $4 RETURNING c.count`

/**
 * Counts an invitation unless the subject has reached its limit. Other invitations of the subject wait
 * until this transaction ends.
 *
 * @returns 0 if it was counted, else the milliseconds until the next one is possible
 */
export async function countInvitation(
  tx: Tx,
  subject: InvitationSubject,
  { limit, nowMs }: { readonly limit: number; readonly nowMs: number },
): Promise<number> {
  const name = subjectName(subject)
  const counted = await tx.query(count, [name, toDate(nowMs), toDate(nowMs - windowMs), limit])
  if (counted.length > 0) return 0
  const rows = await tx.query<{ since: Date }>('SELECT since FROM invitation_counts WHERE subject = $1', [
    name,
  ])
  return Math.max(1, onlyRow(rows).since.getTime() + windowMs - nowMs)
}

function subjectName(subject: InvitationSubject): string {
  if ('app' in subject) return `app ${subject.app}`
  if ('merchant' in subject) return `merchant ${subject.merchant}`
  const address = subject.recipient.toLowerCase()
  return `recipient ${createHash('sha256').update(address, 'utf8').digest('base64url')}`
}
