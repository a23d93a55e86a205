import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, describe, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type PostgresProxy, startPostgresProxy } from '../../../../test/support/postgres-proxy.ts'
import {
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../../../../test/support/postgres-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { accept } from '../../domain/rejections.ts'
import { captureTransaction } from '../../domain/transaction/change.ts'
import { saveChange } from '../changes.ts'
import { Idempotency } from '../idempotency/idempotency.ts'
import { requestFingerprint } from '../idempotency/sealed-answer.ts'
import { type Storage, StorageError, type Tx } from '../storage.ts'
import { findLedgerProblems } from '../tables/ledger.ts'
import { findTransaction, insertTransaction, lockTransaction } from '../tables/transactions.ts'
import { contextOf, openMerchant, someId, someTransaction } from '../testing/payments-under-test.ts'
import { migrate, readMigrations } from './migrate.ts'
import { openPostgres, type PostgresOptions } from './postgres.ts'

const skip = missingPostgres()
const kills = process.env['SOAK'] === '1' ? 30 : 2
const ms = (from: number) => performance.now() - from

describe('PostgreSQL under faults', { skip }, () => {
  let server: PostgresServer
  let proxy: PostgresProxy
  const opened: Storage[] = []

  function open(options: Partial<PostgresOptions> = {}): Storage {
    const url = server.urlOf('postgres', proxy.port)
    const storage = openPostgres({ url, clock: systemClock, random: Math.random, ...options })
    opened.push(storage)
    return storage
  }

  before(async () => {
    server = await startPostgres()
    proxy = await startPostgresProxy(server.port)
    await migrate(open(), readMigrations(), systemClock)
    await server.sql('CREATE TABLE facts (name text PRIMARY KEY)')
  })
  beforeEach(() => proxy.setFault(undefined))
  after(async () => {
    proxy.setFault(undefined)
    proxy.stop()
    for (const storage of opened) await storage.close()
    await server.stop()
  })

  const insertFact = (name: string) => (tx: Tx) => tx.query('INSERT INTO facts VALUES ($1)', [name])
  const countFacts = async (name: string) =>
    Number(await server.sql(`SELECT count(*) FROM facts WHERE name = '${name}'`))

  test('a commit without an answer is reported as unknown, committed or not', async () => {
    const storage = open()
    proxy.setFault('lose-commit-answer', 1)
    await assert.rejects(storage.transaction(insertFact('committed')), { code: 'commit-unknown' })
    proxy.setFault('lose-commit', 1)
    await assert.rejects(storage.transaction(insertFact('lost')), { code: 'commit-unknown' })
    await waitFor('the committed fact', async () => (await countFacts('committed')) === 1)
    assert.equal(await countFacts('lost'), 0)
    await storage.transaction(insertFact('afterwards'))
  })

  test('an idempotent request finds out the outcome of its commit', async () => {
    const storage = open()
    const once = new Idempotency({ storage, clock: systemClock, random: Math.random, randomBytes })
    for (const fault of ['lose-commit-answer', 'lose-commit'] as const) {
      for (const times of [1, 3]) {
        const key = someId()
        const request = { scope: 'app:1', key, fingerprint: requestFingerprint(key, []) }
        proxy.setFault(fault, times)
        const outcome = await once.runOnce(request, async tx => {
          await tx.query('INSERT INTO facts VALUES ($1)', [key])
          return accept({ status: 201, body: key })
        })
        assert.ok(outcome.ok && outcome.value.kind === 'answered', fault)
        assert.deepEqual(outcome.value.answer, { status: 201, body: key }, fault)
        assert.equal(await countFacts(key), 1)
      }
    }
  })

  test('connections that the server closed are replaced without an error', async () => {
    const storage = open({ maxConnections: 4 })
    const select = () => storage.transaction(tx => tx.query('SELECT 1'))
    await Promise.all(Array.from({ length: 4 }, select))
    await server.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tollway-payments'",
    )
    await Promise.all(Array.from({ length: 8 }, select))
    let tries = 0
    await storage.transaction(async tx => {
      tries += 1
      const [own] = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      if (tries === 1) await server.sql(`SELECT pg_terminate_backend(${own?.pid})`)
      await tx.query('SELECT 2')
    })
    assert.equal(tries, 2)
    tries = 0
    const read = await storage.read(async tx => {
      tries += 1
      const [own] = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      if (tries === 1) await server.sql(`SELECT pg_terminate_backend(${own?.pid})`)
      return tx.query('SELECT 2 AS two')
    })
    assert.deepEqual([tries, read], [2, [{ two: 2 }]])
  })

  test('a cancelled statement cancels those that were sent with it', async () => {
    const storage = open({ maxConnections: 1, statementTimeoutMs: 200 })
    const work = storage.transaction(async tx => {
      tx.send("INSERT INTO facts VALUES ('beside')")
      tx.send('SELECT pg_sleep(5)')
    })
    await assert.rejects(work, { code: 'timeout' })
    assert.equal(await countFacts('beside'), 0)
    await storage.transaction(insertFact('after the cancelled'))
  })

  test('the connection to a server that became a standby is replaced', async () => {
    const storage = open({ maxConnections: 1 })
    const pids: unknown[] = []
    await storage.transaction(async tx => {
      const [own] = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      pids.push(own?.pid)
      if (pids.length === 1) await tx.query('SET LOCAL transaction_read_only = on')
      await insertFact('moved')(tx)
    })
    assert.equal(new Set(pids).size, 2)
    assert.equal(await countFacts('moved'), 1)
  })

  test('transactions on a silent server fail after the timeout', async () => {
    const storage = open({ maxConnections: 2, statementTimeoutMs: 200, connectTimeoutMs: 1_500 })
    await storage.transaction(tx => tx.query('SELECT 1'))
    const started = performance.now()
    proxy.setFault('silence')
    const outcomes = await Promise.allSettled(
      Array.from({ length: 6 }, () => storage.transaction(insertFact(someId()))),
    )
    assert.ok(ms(started) < 10_000, `${ms(started)} ms`)
    for (const outcome of outcomes) {
      assert.ok(outcome.status === 'rejected' && outcome.reason instanceof StorageError)
      assert.equal(outcome.reason.code, 'unavailable')
    }
    proxy.cut()
    proxy.setFault(undefined)
    await storage.transaction(insertFact(someId()))
  })

  test('statements, locks and the wait for a connection have time limits', async () => {
    const storage = open({
      maxConnections: 1,
      maxWaiting: 1,
      statementTimeoutMs: 100,
      connectTimeoutMs: 5_000,
    })
    const slow = storage.transaction(tx => tx.query('SELECT pg_sleep(5)'))
    const waiting = storage.transaction(tx => tx.query('SELECT 1'))
    await assert.rejects(
      storage.transaction(tx => tx.query('SELECT 1')),
      { code: 'unavailable' },
    )
    await assert.rejects(slow, { code: 'timeout', sqlState: '57014' })
    await waiting
    await storage.transaction(tx => tx.query('SELECT pg_sleep(0.15)'), { statementTimeoutMs: 2_000 })
    await assert.rejects(
      storage.transaction(tx => tx.query('SELECT pg_sleep(0.15)')),
      { code: 'timeout' },
    )

    const impatient = open({ lockTimeoutMs: 20, retries: { ...fewTries, maxTries: 3 } })
    await storage.transaction(insertFact('locked'))
    await storage.transaction(
      async tx => {
        await tx.query("SELECT FROM facts WHERE name = 'locked' FOR UPDATE")
        const blocked = impatient.transaction(other => other.query("DELETE FROM facts WHERE name = 'locked'"))
        await assert.rejects(blocked, { code: 'contention', sqlState: '55P03' })
      },
      { statementTimeoutMs: 2_000 },
    )
  })

  test('repeated kills of the server lose no commit and repeat none', async () => {
    const storage = open({ connectTimeoutMs: 1_000 })
    const once = new Idempotency({ storage, clock: systemClock, random: Math.random, randomBytes })
    const { merchant } = await openMerchant(storage)
    const start = someTransaction(merchant, 10_000_000n)
    await storage.transaction(tx => insertTransaction(tx, start))
    let killing = true
    let acknowledged = 0n

    async function captureOnce(): Promise<void> {
      const key = someId()
      const request = { scope: merchant.id, key, fingerprint: requestFingerprint(key, ['capture']) }
      await waitFor(
        'the capture',
        async () => {
          const outcome = await once.runOnce(request, async tx => {
            const now = await lockTransaction(tx, start.id)
            assert.ok(now)
            const input = { amount: 1n, currency: null, descriptor: null }
            const change = captureTransaction(now, input, contextOf(merchant))
            assert.ok(change.ok)
            saveChange(tx, change.value)
            return accept({ status: 201, body: '{}' })
          })
          return outcome.ok && outcome.value.kind === 'answered'
        },
        30_000,
      )
      acknowledged += 1n
    }

    const clients = Array.from({ length: 8 }, async () => {
      while (killing) await captureOnce()
    })
    for (let kill = 0; kill < kills; kill += 1) {
      const before = acknowledged
      await waitFor('captures between two kills', () => acknowledged > before + 20n, 30_000)
      await server.restart()
    }
    killing = false
    await Promise.all(clients)
    const end = await storage.transaction(tx => findTransaction(tx, start.id))
    assert.equal(end?.capturedAmount, acknowledged)
    assert.equal(end?.trail.length, Number(acknowledged))
    assert.deepEqual(await storage.transaction(tx => findLedgerProblems(tx, 10)), [])
  })
})

const fewTries = { maxTries: 3, retryDeadlineMs: 5_000, initialWaitMs: 1, maxWaitMs: 5 }
