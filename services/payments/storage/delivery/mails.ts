import type { JsonObject } from '../../domain/json.ts'
import { toDate } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'
import { column, instant, json, type Row, Table } from '../table.ts'

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

const mails = new Table('mails', {
  id: column<string>('id'),
  createdMs: instant('created'),
  template: column<string>('template'),
  recipient: column<string>('recipient'),
  content: json<JsonObject>('content'),
})
const insert = mails.insert(['due'])

/** It is due at once. */
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
