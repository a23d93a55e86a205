import { createHash } from 'node:crypto'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { onlyRow, type Tx, toDate } from '../storage.ts'
import { instantColumn, jsonColumn, type Row, Table, valueColumn } from '../table.ts'

/** A mail is sent at least once, and stored in the transaction of its cause, such as an invitation. */
export interface Mail {
  readonly id: string
  readonly createdMs: number
  /** The name of the mail's text, into which `content` is filled. */
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

/** No other process gets the mails before `leaseUntilMs`, when those without an outcome are due again. */
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

/** @param dueMs the time of the next attempt, in milliseconds since the epoch */
export async function postponeMail(tx: Tx, id: string, dueMs: number): Promise<void> {
  await tx.query('UPDATE mails SET due = $2 WHERE id = $1', [id, toDate(dueMs)])
}

export async function giveUpMail(tx: Tx, id: string, atMs: number): Promise<void> {
  await tx.query('UPDATE mails SET given_up = $2 WHERE id = $1', [id, toDate(atMs)])
}

/** What the limits of invitations count by, for all processes together. */
type InvitationSubject =
  | { readonly app: string }
  | { readonly merchant: string }
  /** An e-mail address; upper and lower case count as the same. */
  | { readonly recipient: string }

/** Invitations are counted for 24 hours from the first one. Then the count begins again. */
const windowMs = 24 * 60 * 60 * 1000

const count = `INSERT INTO invitation_counts AS c (subject, since, count) VALUES ($1, $2, 1)
  ON CONFLICT (subject) DO UPDATE SET
    count = CASE WHEN c.since <= $3 THEN 1 ELSE c.count + 1 END,
    since = CASE WHEN c.since <= $3 THEN excluded.since ELSE c.since END
  WHERE c.since <= $3 OR c.count < $4 RETURNING c.count`

/**
 * Counts an invitation unless the subject has reached its limit. Other transactions that count for the same
 * subject wait until this one ends.
 *
 * @returns 0 if the invitation was counted, else the milliseconds until the next one is possible
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
