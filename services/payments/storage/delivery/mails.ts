import type { JsonObject } from '../../domain/json.ts'
import { insertInto, toDate } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'

/** Mail that was promised by the commit that stored it. It is sent at least once. */
export interface Mail {
  readonly id: string
  readonly createdMs: number
  /** Which text it is; what fills it is `content`. */
  readonly template: string
  readonly recipient: string
  readonly content: JsonObject
  /** How often it was tried to be sent, with the try that now begins. */
  readonly attempts: number
}

interface MailRow {
  readonly id: string
  readonly created: Date
  readonly template: string
  readonly recipient: string
  readonly content: JsonObject
  readonly attempts: number
}

const insert = insertInto('mails', ['id', 'created', 'template', 'recipient', 'content', 'due'])

/** It is due at once. */
export async function insertMail(tx: Tx, mail: Omit<Mail, 'attempts'>): Promise<void> {
  const created = toDate(mail.createdMs)
  const content = JSON.stringify(mail.content)
  await tx.query(insert, [mail.id, created, mail.template, mail.recipient, content, created])
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
  const rows = await tx.query<MailRow>(
    `UPDATE mails SET attempts = attempts + 1, due = $2 WHERE id IN (
       SELECT id FROM mails WHERE due <= $1 AND sent IS NULL AND given_up IS NULL ORDER BY due LIMIT $3
       FOR UPDATE SKIP LOCKED
     ) RETURNING id, created, template, recipient, content, attempts`,
    [toDate(nowMs), toDate(leaseUntilMs), limit],
  )
  return rows.map(({ created, ...rest }) => ({ ...rest, createdMs: created.getTime() }))
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
