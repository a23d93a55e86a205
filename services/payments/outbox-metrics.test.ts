import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { newPgliteFolder } from '../../test/support/pglite-folder.ts'
import { createMetrics } from './metrics.ts'
import { reportOutboxes } from './outbox-metrics.ts'
import { insertMail, markMailSent } from './storage/delivery/mails.ts'
import {
  disableWebhookEndpoint,
  insertWebhookEndpoint,
  insertWebhookEvent,
} from './storage/delivery/webhooks.ts'
import { migrate, readMigrations } from './storage/engine/migrate.ts'
import { openPglite } from './storage/engine/pglite.ts'
import { type Storage, StorageError } from './storage/storage.ts'
import { nowMs, openMerchant, someId } from './storage/testing/payments-under-test.ts'

const minuteMs = 60_000

test('waiting records are counted with their delay, and a failing database is reported', async t => {
  const folder = await newPgliteFolder()
  const opened = await openPglite({ folder, clock: systemClock, random: Math.random })
  t.after(async () => {
    await opened.close()
    await rm(folder, { recursive: true })
  })
  await migrate(opened, readMigrations(), systemClock)
  const storage: { -readonly [Part in keyof Storage]: Storage[Part] } = { ...opened }
  let monotonicMs = 0
  const clock = { ...systemClock, nowMs: () => nowMs + minuteMs, monotonicMs: () => monotonicMs }
  const metrics = createMetrics()
  const look = reportOutboxes({ storage, clock }, metrics)
  const figures = async () => {
    monotonicMs += 15_000
    await look().catch(() => {})
    return Object.fromEntries(
      metrics.entries().map(([name, value]) => [name.replace('payments_', ''), value]),
    )
  }
  const empty = {
    'outbox_waiting{outbox="mail"}': 0,
    'outbox_waiting{outbox="webhooks"}': 0,
    'outbox_waiting{outbox="processor"}': 0,
    'outbox_waiting{outbox="authorisations"}': 0,
    'outbox_overdue_seconds{outbox="mail"}': 0,
    'outbox_overdue_seconds{outbox="webhooks"}': 0,
    'outbox_overdue_seconds{outbox="processor"}': 0,
    'outbox_overdue_seconds{outbox="authorisations"}': 0,
    processor_exceptions: 0,
    database_reachable: 1,
  }
  assert.deepEqual(await figures(), empty)

  await fill(opened)
  const filled = {
    'outbox_waiting{outbox="mail"}': 1,
    'outbox_waiting{outbox="webhooks"}': 3,
    'outbox_waiting{outbox="processor"}': 2,
    'outbox_waiting{outbox="authorisations"}': 0,
    'outbox_overdue_seconds{outbox="mail"}': 60,
    // The event of another subject is due. Of the first subject, the first event is due later, and the second
    // one waits for it.
    'outbox_overdue_seconds{outbox="webhooks"}': 40,
    'outbox_overdue_seconds{outbox="processor"}': 0,
    'outbox_overdue_seconds{outbox="authorisations"}': 0,
    processor_exceptions: 0,
    database_reachable: 1,
  }
  assert.deepEqual(await figures(), filled)

  storage.read = () => Promise.reject(new StorageError('unavailable', 'no connection'))
  assert.deepEqual(await figures(), { ...filled, database_reachable: 0 })
  storage.read = opened.read
  assert.deepEqual(await figures(), filled)
})

async function fill(storage: Storage): Promise<void> {
  const { merchant } = await openMerchant(storage)
  const merchantId = merchant.id
  const mail = { createdMs: nowMs, template: 't', recipient: 'a@example.org', content: {} }
  const [sent, endpoint, disabled] = [someId(), someId(), someId()]
  await storage.transaction(async tx => {
    await insertMail(tx, { ...mail, id: someId() })
    await insertMail(tx, { ...mail, id: sent })
    await markMailSent(tx, sent, nowMs)
    for (const id of [endpoint, disabled]) {
      const shape = { id, merchantId, createdMs: nowMs, url: 'https://example.org', events: [] }
      await insertWebhookEndpoint(tx, { ...shape, secrets: ['s'], disabledMs: null })
    }
    const [subject, other] = [someId(), someId()]
    for (const [index, subjectId] of [subject, subject, other].entries()) {
      const createdMs = nowMs + index * 10_000
      insertWebhookEvent(tx, { id: someId(), merchantId, createdMs, type: 'a', subjectId, body: 'a' })
    }
    await disableWebhookEndpoint(tx, disabled, nowMs)
    await tx.query(
      `UPDATE webhook_deliveries SET due = due + interval '1 hour'
       WHERE position = (SELECT min(position) FROM webhook_deliveries)`,
    )
    // The second instruction of the transaction waits for the first, which another process has claimed.
    await tx.query('SET LOCAL session_replication_role = replica')
    await tx.query(
      `INSERT INTO processor_instructions
         (transaction_id, number, operation_id, kind, test, reference, amount, currency, due)
       SELECT $1, number, $1, 'capture', true, 'r', 1, 'DKK', $2::timestamptz + due
       FROM (VALUES (0, interval '1 hour'), (1, interval '0')) AS instruction (number, due)`,
      [someId(), new Date(nowMs)],
    )
  })
}
