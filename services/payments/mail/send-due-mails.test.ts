import assert from 'node:assert/strict'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { missingPostgres, type PostgresServer, startPostgres } from '../../../test/support/postgres-server.ts'
import { startProgram } from '../../../test/support/program.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { insertMail } from '../storage/delivery/mails.ts'
import { migrate, readMigrations } from '../storage/engine/migrate.ts'
import { openPostgres } from '../storage/engine/postgres.ts'
import type { Storage } from '../storage/storage.ts'
import { someId } from '../storage/testing/payments-under-test.ts'
import {
  type SmtpFault,
  type SmtpServerUnderTest,
  startSmtpServer,
  startTricklingServer,
} from '../testing/smtp-server-under-test.ts'
import { createFolderTransport, type MailTransport } from './mail-transport.ts'
import { mailWaitMs, sendDueMails } from './send-due-mails.ts'
import { createSmtpTransport, type SmtpOptions } from './smtp-transport.ts'

const from = { name: 'Tollway', address: 'pay@example.com' }
const hourMs = 60 * 60 * 1000

describe('the outbox of mail', { skip: missingPostgres() }, () => {
  let postgres: PostgresServer
  let storage: Storage
  let smtp: SmtpServerUnderTest
  before(async () => {
    ;[postgres, smtp] = await Promise.all([startPostgres(), startSmtpServer()])
    storage = openPostgres({ url: postgres.url, clock: systemClock, random: Math.random })
    await migrate(storage, readMigrations(), systemClock)
  })
  after(async () => {
    await storage?.close()
    await smtp?.close()
    await postgres?.stop()
  })
  beforeEach(() => storage.transaction(tx => tx.script('TRUNCATE mails')))

  async function promise(count = 1): Promise<readonly string[]> {
    const ids = Array.from({ length: count }, someId)
    const content = { merchantName: 'Café', website: 'https://example.org', country: 'DK' }
    await storage.transaction(async tx => {
      for (const id of ids) {
        const mail = {
          id,
          createdMs: Date.now(),
          template: 'invitation',
          recipient: 'eve@example.org',
          content,
        }
        await insertMail(tx, mail)
      }
    })
    return ids
  }

  const smtpTo = (port: number, limits: SmtpOptions = {}) =>
    createSmtpTransport({ host: '127.0.0.1', port, tls: false, login: null }, limits)
  const impatient = { stepTimeoutMs: 300, deadlineMs: 600 }

  async function sendAt(atMs: number, transport: MailTransport): Promise<readonly string[]> {
    const outcomes: string[] = []
    const clock: Clock = { nowMs: () => atMs, monotonicMs: systemClock.monotonicMs }
    const onOutcome = (outcome: string) => outcomes.push(outcome)
    const mailing = { storage, clock, random: () => 0, transport, from, log: silentLog, onOutcome }
    while (await sendDueMails(mailing));
    return outcomes
  }

  const idsTaken = (since: number) =>
    smtp.taken.slice(since).map(mail => /^Message-ID: <(.*)@example\.com>/m.exec(mail)?.[1] ?? '')

  test('mail that is due is sent once', async () => {
    const since = smtp.taken.length
    const ids = await promise(20)
    const outcomes = await sendAt(Date.now(), smtpTo(smtp.port))
    assert.deepEqual([outcomes.length, new Set(outcomes)], [20, new Set(['sent'])])
    assert.deepEqual(idsTaken(since).toSorted(), ids.toSorted())
    assert.deepEqual(await sendAt(Date.now() + 99 * 24 * hourMs, smtpTo(smtp.port)), [])
  })

  const transient: readonly SmtpFault[] = ['greeting 421', 'recipient 451', 'data 452', 'hang', 'cut']
  for (const fault of transient) {
    test(`a mail is sent again later after ${fault}`, async () => {
      const since = smtp.taken.length
      const ids = await promise()
      const nowMs = Date.now()
      smtp.setFault(fault)
      const limits = fault === 'hang' ? impatient : {}
      assert.deepEqual(await sendAt(nowMs, smtpTo(smtp.port, limits)), ['postponed'])
      assert.deepEqual(await sendAt(nowMs + 1_000, smtpTo(smtp.port)), [])
      smtp.setFault('none')
      assert.deepEqual(await sendAt(nowMs + hourMs, smtpTo(smtp.port)), ['sent'])
      assert.deepEqual(idsTaken(since), ids)
    })
  }

  for (const fault of ['recipient 550', 'data 554'] as const) {
    test(`a mail is given up at the third attempt after ${fault}`, async () => {
      await promise()
      const nowMs = Date.now()
      smtp.setFault(fault)
      const outcomes: string[] = []
      for (let hour = 0; hour < 5; hour += 1) {
        outcomes.push(...(await sendAt(nowMs + hour * hourMs, smtpTo(smtp.port))))
      }
      smtp.setFault('none')
      assert.deepEqual(outcomes, ['postponed', 'postponed', 'given-up'])
    })
  }

  test('mail for an unreachable server is retried for days', async () => {
    await promise()
    const nowMs = Date.now()
    const outcomes: string[] = []
    for (let hour = 0; hour < 144; hour += 12) {
      outcomes.push(...(await sendAt(nowMs + hour * hourMs, smtpTo(1))))
    }
    assert.deepEqual(outcomes, [...new Array(10).fill('postponed'), 'given-up'])
  })

  test('a server that answers too slowly is closed at the deadline', async () => {
    const trickling = await startTricklingServer()
    await promise()
    const startMs = performance.now()
    assert.deepEqual(await sendAt(Date.now(), smtpTo(trickling.port, impatient)), ['postponed'])
    assert.ok(performance.now() - startMs < 5_000)
    trickling.close()
  })

  test('a mail is postponed if the password would be sent without TLS', async () => {
    const since = smtp.taken.length
    await promise()
    const login = { user: 'joe', password: 'p4ssw0rd' }
    const transport = createSmtpTransport({ host: '127.0.0.1', port: smtp.port, tls: false, login })
    assert.deepEqual(await sendAt(Date.now(), transport), ['postponed'])
    assert.equal(smtp.taken.length, since)
  })

  test('a process that is killed after a send and before its record sends the mail once more', async () => {
    const since = smtp.taken.length
    const [id = ''] = await promise()
    const sender = startSender('after-send')
    await sender.said('sent, and not marked')
    await sender.end('SIGKILL')
    assert.deepEqual(await sendAt(Date.now(), smtpTo(smtp.port)), [])
    assert.deepEqual(await sendAt(Date.now() + 120_001, smtpTo(smtp.port)), ['sent'])
    assert.deepEqual(await sendAt(Date.now() + 240_000, smtpTo(smtp.port)), [])
    assert.deepEqual(idsTaken(since), [id, id])
    const [first = '', second = ''] = smtp.taken.slice(since)
    assert.equal(bodyOf(first), bodyOf(second))
  })

  test('two processes send each mail once', async () => {
    const since = smtp.taken.length
    const senders = [startSender(), startSender()]
    const ids = await promise(60)
    await waitFor('all mail', () => smtp.taken.length - since >= ids.length)
    await waitFor('all marks', async () => {
      const unsent = 'SELECT 1 FROM mails WHERE sent IS NULL'
      return (await storage.transaction(tx => tx.query(unsent))).length === 0
    })
    for (const sender of senders) await sender.end('SIGKILL')
    assert.deepEqual(idsTaken(since).toSorted(), ids.toSorted())
  })

  function startSender(...args: readonly string[]) {
    const program = fileURLToPath(new URL('../testing/mail-sender.ts', import.meta.url))
    return startProgram(process.execPath, [program, postgres.url, String(smtp.port), ...args])
  }

  test('without a server mail is written to complete files that only their owner can read', async () => {
    const folder = temporaryFolder('tollway-mail')
    const inside = join(folder, 'mail')
    const [id = ''] = await promise()
    assert.deepEqual(await sendAt(Date.now(), createFolderTransport(inside)), ['sent'])
    const [name = '', ...others] = await readdir(inside)
    assert.deepEqual(others, [])
    assert.match(name, new RegExp(`^\\d{4}-.*Z-${id}\\.eml$`))
    assert.match(
      await readFile(join(inside, name), 'utf8'),
      /^Subject: Invitation til en forretningskonto\r$/m,
    )
    assert.equal((await stat(join(inside, name))).mode & 0o777, 0o600)
    await promise()
    const blocked = createFolderTransport(join(inside, name, 'below-a-file'))
    assert.deepEqual(await sendAt(Date.now(), blocked), ['postponed'])
  })
})

function bodyOf(mail: string): string {
  return mail.slice(mail.indexOf('From:'))
}

test('the waits between attempts grow to an hour', () => {
  const waits = [1, 2, 3, 9, 50].map(attempts => mailWaitMs(attempts, () => 0))
  assert.deepEqual(waits, [15_000, 30_000, 60_000, hourMs, hourMs])
  assert.equal(
    mailWaitMs(1, () => 0.999_999),
    7_500,
  )
})
