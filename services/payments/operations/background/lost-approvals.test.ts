import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { inspect } from 'node:util'
import { systemClock } from '@tollway/chassis/clock.ts'
import { newPgliteFolder } from '../../../../test/support/pglite-folder.ts'
import {
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../../../../test/support/postgres-server.ts'
import { createTestClock, paymentsOn, type TestClock } from '../../http/testing/api-under-test.ts'
import type { CardProcessor } from '../../processor/processor.ts'
import { migrate, readMigrations } from '../../storage/engine/migrate.ts'
import { openPglite } from '../../storage/engine/pglite.ts'
import { openPostgres } from '../../storage/engine/postgres.ts'
import type { Storage } from '../../storage/storage.ts'
import { insertMerchant } from '../../storage/tables/merchants.ts'
import { someMerchant } from '../../storage/testing/payments-under-test.ts'
import type { Payments } from '../operation.ts'
import { type CardPayment, payByCard } from '../testing/pay-under-test.ts'
import { maxSweptAtOnce, sweepAuthorisations } from './sweep-authorisations.ts'

interface Bench {
  readonly storage: Storage
  readonly clock: TestClock
  readonly payments: Payments
  readonly request: CardPayment
  /** The operation ids of the calls to the processor, in order. */
  readonly asked: readonly string[]
  /** Resolves with the number of approvals at the processor and of payments in the books. */
  approvals(): Promise<{ readonly approved: number; readonly payments: number }>
}

async function benchOn(storage: Storage): Promise<Bench> {
  const clock = createTestClock()
  const payments = paymentsOn(storage, clock)
  const asked: string[] = []
  const processor: CardProcessor = {
    ...payments.processors.test,
    authorise(request) {
      asked.push(request.operationId)
      return payments.processors.test.authorise(request)
    },
  }
  const merchant = someMerchant()
  await storage.transaction(tx => insertMerchant(tx, merchant))
  return {
    storage,
    clock,
    payments: { ...payments, processors: { test: processor, live: null } },
    asked,
    request: {
      merchantKey: merchant.key,
      input: { currency: 'DKK', amount: 500n, descriptor: null, custom: null },
      reference: null,
      card: { number: '4100 0000 0000 0001', expiryMonth: 12, expiryYear: 2030, code: '123' },
      attempt: randomBytes(18).toString('base64url'),
    },
    async approvals() {
      const [row] = await storage.transaction(tx =>
        tx.query<{ approved: bigint; payments: bigint }>(
          `SELECT (SELECT count(*) FROM test_processor_answers
              WHERE approved AND cancelled IS NULL AND operation_id = ANY ($1::text[])) AS approved,
            (SELECT count(*) FROM transactions WHERE error IS NULL AND id = ANY ($1::uuid[])) AS payments`,
          [asked],
        ),
      )
      return { approved: Number(row?.approved), payments: Number(row?.payments) }
    },
  }
}

async function sweep(payments: Payments): Promise<readonly string[]> {
  const outcomes: string[] = []
  for (;;) {
    const swept = await sweepAuthorisations(payments)
    outcomes.push(...swept.map(({ outcome }) => outcome))
    if (swept.length < maxSweptAtOnce) return outcomes
  }
}

const made = async (outcome: ReturnType<typeof payByCard>): Promise<string> => {
  const found = await outcome
  assert.ok(found.ok, inspect(found))
  return found.value.id
}

/** Makes all attempts to store a transaction fail until `end` is called. */
type Fault = (storage: Storage) => Promise<{ readonly end: () => Promise<void> }>

function lostApprovals(name: string, fault: Fault, open: () => Promise<Storage>): void {
  test(`${name}: a retry uses the same reference, and there is one payment`, async () => {
    const { storage, payments, request, asked, approvals } = await benchOn(await open())
    const { end } = await fault(storage)
    await assert.rejects(payByCard(payments, request))
    await end()
    const id = await made(payByCard(payments, request))
    assert.deepEqual(new Set(asked), new Set([id]))
    assert.deepEqual(await approvals(), { approved: 1, payments: 1 })
    assert.equal(await made(payByCard(payments, request)), id)
    assert.deepEqual(await sweep(payments), [])
  })

  test(`${name}: an approval whose request is not repeated is voided`, async () => {
    const { storage, payments, request, asked, clock, approvals } = await benchOn(await open())
    const { end } = await fault(storage)
    await assert.rejects(payByCard(payments, request))
    await end()
    assert.deepEqual(await approvals(), { approved: 1, payments: 0 })
    clock.elapse(payments.authorisationSweepMs - 60_000)
    assert.deepEqual(await sweep(payments), [], 'too early: the request may come again')
    clock.elapse(60_000)
    assert.deepEqual(await sweep(payments), ['voided'])
    assert.deepEqual(await approvals(), { approved: 0, payments: 0 })
    const id = await made(payByCard(payments, request))
    assert.notEqual(id, asked[0], 'a voided authorisation is not taken for a payment')
    assert.deepEqual(await approvals(), { approved: 1, payments: 1 })
  })
}

function otherRules(open: () => Promise<Storage>): void {
  test('a processor that fails during the sweep is asked again', async () => {
    const { payments, request, clock, approvals } = await benchOn(await open())
    const { test: processor } = payments.processors
    const silent = { ...processor, authorise: () => Promise.reject(new Error('no answer')) }
    await assert.rejects(payByCard({ ...payments, processors: { test: silent, live: null } }, request))
    clock.elapse(payments.authorisationSweepMs)
    const away = { ...processor, cancelAuthorisation: () => Promise.reject(new Error('away')) }
    assert.deepEqual(await sweep({ ...payments, processors: { test: away, live: null } }), ['failed'])
    clock.elapse(60_000)
    assert.deepEqual(await sweep(payments), ['absent'])
    assert.deepEqual(await sweep(payments), [])
    assert.deepEqual(await approvals(), { approved: 0, payments: 0 })
  })

  test('a process that continues after the sweep has voided its authorisation gets no approval', async () => {
    const { payments, request, clock, approvals, asked } = await benchOn(await open())
    const { test: processor } = payments.processors
    const stopped = Promise.withResolvers<void>()
    const reached = Promise.withResolvers<void>()
    const slow: CardProcessor = {
      ...processor,
      async authorise(question) {
        reached.resolve()
        await stopped.promise
        return processor.authorise(question)
      },
    }
    const late = payByCard({ ...payments, processors: { test: slow, live: null } }, request)
    await Promise.race([reached.promise, late])
    clock.elapse(payments.authorisationSweepMs)
    assert.deepEqual(await sweep(payments), ['absent'])
    stopped.resolve()
    const outcome = await late
    assert.ok(!outcome.ok && outcome.rejection.code === 'idempotency_in_progress')
    assert.equal(asked.length, 1)
    assert.deepEqual(await approvals(), { approved: 0, payments: 0 })
    await made(payByCard(payments, request))
    assert.deepEqual(await approvals(), { approved: 1, payments: 1 })
  })

  test('a request that a process works on is not swept', async () => {
    const { payments, request, approvals } = await benchOn(await open())
    const { test: processor } = payments.processors
    const found: string[] = []
    const swept: CardProcessor = {
      ...processor,
      async authorise(question) {
        found.push(...(await sweep({ ...payments, clock: { ...payments.clock, nowMs: inAMoment } })))
        return processor.authorise(question)
      },
    }
    const inAMoment = () => payments.clock.nowMs() + 2
    const early = { ...payments, authorisationSweepMs: 1, processors: { test: swept, live: null } }
    await made(payByCard(early, request))
    assert.deepEqual(found, ['running'])
    assert.deepEqual(await approvals(), { approved: 1, payments: 1 })
  })

  test('an attempt whose payment an older process has stored is removed', async () => {
    const { storage, payments, request, clock, approvals } = await benchOn(await open())
    const id = await made(payByCard(payments, request))
    await storage.transaction(tx =>
      tx.query(
        `INSERT INTO authorisation_attempts (reference, scope, key_hash, merchant_id, test, amount, currency,
           created, due)
         SELECT id, 'pay:x', sha256('x'), merchant_id, test, amount, currency, created, created
         FROM transactions WHERE id = $1`,
        [id],
      ),
    )
    clock.elapse(1)
    assert.deepEqual(await sweep(payments), ['recorded'])
    assert.deepEqual(await approvals(), { approved: 1, payments: 1 })
  })
}

const retries = { maxTries: 3, retryDeadlineMs: 1_000, initialWaitMs: 1, maxWaitMs: 10 }

describe('approvals without a payment in PostgreSQL', { skip: missingPostgres() }, () => {
  let server: PostgresServer
  let url = ''
  const opened: Storage[] = []
  before(async () => {
    server = await startPostgres()
    url = await server.createDatabase('payments')
    const storage = await open(50, 5_000)()
    await migrate(storage, readMigrations(), systemClock)
  })
  after(async () => {
    for (const storage of opened) await storage.close()
    await server.stop()
  })

  function open(lockTimeoutMs: number, statementTimeoutMs: number) {
    return async () => {
      const timeouts = { lockTimeoutMs, statementTimeoutMs, retries }
      const storage = openPostgres({ url, clock: systemClock, random: Math.random, ...timeouts })
      opened.push(storage)
      return storage
    }
  }

  /** Locks the table in another session. */
  const lockTransactions: Fault = async () => {
    const held = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const other = openPostgres({ url, clock: systemClock, random: Math.random })
    const holding = other.transaction(async tx => {
      await tx.query('LOCK TABLE transactions IN SHARE MODE')
      held.resolve()
      await release.promise
    })
    await Promise.race([held.promise, holding])
    return {
      async end() {
        release.resolve()
        await holding
        await other.close()
      },
    }
  }

  lostApprovals('a lock that is held for longer than the lock timeout', lockTransactions, open(50, 5_000))
  lostApprovals('a statement timeout', lockTransactions, open(5_000, 50))
  otherRules(open(50, 5_000))
})

describe('approvals without a payment in PGlite', () => {
  let folder = ''
  let opened: Promise<Storage> | undefined
  const openOnce = async () => {
    folder = await newPgliteFolder()
    const storage = await openPglite({ folder, clock: systemClock, random: Math.random })
    await migrate(storage, readMigrations(), systemClock)
    return storage
  }
  const open = () => {
    opened ??= openOnce()
    return opened
  }
  after(async () => {
    await (await opened)?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** Renames the table, because PGlite has no second session that could lock it. */
  const hideTransactions: Fault = async storage => {
    const run = (sql: string) => storage.transaction(tx => tx.script(sql))
    await run('ALTER TABLE transactions RENAME TO hidden')
    return { end: () => run('ALTER TABLE hidden RENAME TO transactions') }
  }
  lostApprovals('a table that cannot be written', hideTransactions, open)
  otherRules(open)
})
