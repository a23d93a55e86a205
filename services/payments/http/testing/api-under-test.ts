import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { missingPostgres, startPostgres } from '../../../../test/support/postgres-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import type { CallGuard } from '../../call-guard.ts'
import { parseRateTable } from '../../domain/money/exchange.ts'
import { parseFeeTable } from '../../domain/money/fees.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import { instructProcessor } from '../../operations/background/instruct-processor.ts'
import { recordEvents } from '../../operations/background/record-events.ts'
import type { Payments } from '../../operations/operation.ts'
import { payByCard } from '../../operations/testing/pay-under-test.ts'
import { createTestProcessor } from '../../processor/test-processor.ts'
import { createStoredAnswers, createStoredJournal } from '../../storage/delivery/test-processor-stores.ts'
import { migrate, readMigrations } from '../../storage/engine/migrate.ts'
import { openPglite } from '../../storage/engine/pglite.ts'
import { openPostgres } from '../../storage/engine/postgres.ts'
import { Idempotency } from '../../storage/idempotency/idempotency.ts'
import type { Storage } from '../../storage/storage.ts'
import { createApiServer } from '../servers/api-server.ts'
import type { JsonServerOptions } from '../servers/server.ts'
import { assertConforms } from './conformance-under-test.ts'

/** The start time of tests, at which the test cards have not expired. */
export const startMs = Date.UTC(2026, 6, 10, 8, 30)

/** A running clock that a test can move forward. */
export interface TestClock extends Clock {
  elapse(ms: number): void
}

export function createTestClock(): TestClock {
  let elapsedMs = 0
  return {
    nowMs: () => Math.floor(startMs + performance.now() + elapsedMs),
    monotonicMs: () => performance.now() + elapsedMs,
    elapse(ms) {
      elapsedMs += ms
    },
  }
}

export interface PaymentsUnderTest {
  readonly payments: Payments
  readonly clock: TestClock
  /** The storage, in which tests can run SQL. */
  readonly storage: Storage
  /** Runs all due background tasks once. */
  settle(): Promise<void>
  close(): Promise<void>
}

const rates = { DKK: '7.5', USD: '1.1', JPY: '160', KWD: '0.33', GBP: '0.85' }
const fees = { DKK: { capture: { flat: '25', rate: '0.0135' }, dispute: { flat: '10000' } } }

/** Creates a new database, PostgreSQL if it is installed, else the embedded one. */
export async function startPayments(): Promise<PaymentsUnderTest> {
  const clock = createTestClock()
  const { storage, remove } = await openDatabase(clock)
  await migrate(storage, readMigrations(), clock)
  const payments = paymentsOn(storage, clock)
  return {
    payments,
    clock,
    storage,
    async settle() {
      await instructProcessor(payments)
      await recordEvents(payments, payments.processors.test, true)
    },
    async close() {
      await storage.close()
      await remove()
    },
  }
}

/** Returns the dependencies of operations on a migrated storage, with the test processor. */
export function paymentsOn(storage: Storage, clock: Clock): Payments {
  const rateTable = parseRateTable('EUR', rates)
  const feeTable = parseFeeTable(fees)
  assert.ok('table' in rateTable && 'table' in feeTable)
  const test = createTestProcessor({
    key: Buffer.alloc(32, 7),
    journal: createStoredJournal(storage),
    answers: createStoredAnswers(storage),
    now: () => clock.nowMs(),
    eventDelayMs: 0,
  })
  return {
    storage,
    idempotency: new Idempotency({ storage, clock, random: Math.random, randomBytes }),
    processors: { test, live: null },
    clock,
    randomBytes,
    pricing: { fees: feeTable.table, rates: rateTable.table },
    invitationLimits: { perApp: 100, perMerchant: 50, perRecipient: 3 },
    trailLimits: { captures: 100, refunds: 100, voids: 100 },
    fundingCurrencies: ['DKK', 'EUR'],
    authorisationLifetimeMs: 7 * 24 * 60 * 60 * 1000,
    authorisationSweepMs: 30 * 60 * 1000,
    webhookPolicy: new AddressPolicy([], false),
  }
}

async function openDatabase(
  clock: Clock,
): Promise<{ readonly storage: Storage; readonly remove: () => Promise<void> }> {
  const random = Math.random
  if (missingPostgres() === false) {
    const server = await startPostgres(['deadlock_timeout=50ms'])
    const url = await server.createDatabase('payments')
    return { storage: openPostgres({ url, clock, random }), remove: () => server.stop() }
  }
  const folder = temporaryFolder('tollway-payments')
  return { storage: await openPglite({ folder, clock, random }), remove: async () => {} }
}

export interface ApiUnderTest extends PaymentsUnderTest {
  readonly url: string
  readonly port: number
  /** Returns the lines logged so far, at the level debug. */
  readonly logged: () => string
  call(method: string, path: string, request?: TestRequest): Promise<TestResponse>
}

export interface TestRequest {
  readonly key?: string
  readonly json?: unknown
  readonly form?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The body, which is sent unchanged. The content type must be in `headers`. */
  readonly body?: string | Uint8Array
}

export interface TestResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body, parsed if it is JSON, else as text. */
  readonly json: unknown
}

export interface ApiUnderTestOptions extends Pick<JsonServerOptions, 'timeouts'> {
  readonly signUps?: Pick<KeyedRateLimiter, 'take'> | null
  readonly guard?: CallGuard
}

/** Starts the API on a free port. It compares every answer with the OpenAPI document. */
export async function startApi(options: ApiUnderTestOptions = {}): Promise<ApiUnderTest> {
  const under = await startPayments()
  const api = await serveApi(under, options)
  return {
    ...api,
    async close() {
      await api.close()
      await under.close()
    },
  }
}

/** Starts another server of the API. Its `close` leaves the payments open. */
export async function serveApi(
  under: PaymentsUnderTest,
  options: ApiUnderTestOptions,
): Promise<ApiUnderTest> {
  const lines: string[] = []
  const server = createApiServer({
    payments: under.payments,
    log: createLog({ level: 'debug', format: 'json', write: line => lines.push(line) }),
    clock: under.clock,
    randomBytes,
    onAnswer: () => {},
    onReplay: () => {},
    ready: async () => true,
    signUps: { take: () => 0 },
    guard: null,
    ...options,
  })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${port}`
  return {
    ...under,
    url,
    port,
    logged: () => lines.join(''),
    call: (method, path, request = {}) => call(url, method, path, request),
    close: () => server.close(1_000),
  }
}

let shared: Promise<ApiUnderTest> | undefined

/** Creating a database takes long, so all suites share one API. Each suite creates its own shops. */
export function sharedApi(): Promise<ApiUnderTest> {
  shared ??= startApi()
  return shared
}

export async function closeSharedApi(): Promise<void> {
  await (await shared)?.close()
}

async function call(url: string, method: string, path: string, request: TestRequest): Promise<TestResponse> {
  const { key, json, form, headers = {}, body } = request
  const content = json === undefined ? (form ?? body) : JSON.stringify(json)
  const type = json === undefined ? 'application/x-www-form-urlencoded' : 'application/json'
  const response = await fetch(url + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(key === undefined ? {} : { authorization: basic(key) }),
      ...(json === undefined && form === undefined ? {} : { 'content-type': type }),
      ...headers,
    },
    ...(content === undefined ? {} : { body: content }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  const parsed = text === '' ? undefined : isJson ? JSON.parse(text) : text
  assert.ok(response.headers.has('x-request-id'), `${method} ${path} has no request id`)
  assertConforms(method, path, response.status, parsed)
  return { status: response.status, headers: response.headers, text, json: parsed }
}

export function basic(key: string): string {
  return `Basic ${Buffer.from(`:${key}`).toString('base64')}`
}

export const merchantInput = {
  currency: 'DKK',
  test: true,
  email: 'jane@example.com',
  website: 'https://example.com',
  descriptor: 'Coffee & Jane',
  company: { country: 'DK' },
}

export interface TestShop {
  readonly key: string
  readonly appId: string
  readonly merchantId: string
  readonly publicKey: string
}

export async function openShop(api: ApiUnderTest, input: object = merchantInput): Promise<TestShop> {
  const { app } = (await api.call('POST', '/apps', { json: { name: 'till' } })).json as {
    app: { id: string; key: string }
  }
  const made = await api.call('POST', '/merchants', { key: app.key, json: input })
  assert.equal(made.status, 201, made.text)
  const { merchant } = made.json as { merchant: { id: string; key: string } }
  return { key: app.key, appId: app.id, merchantId: merchant.id, publicKey: merchant.key }
}

export interface TestPayment {
  readonly number?: string
  readonly amount?: bigint
  readonly currency?: string
  readonly code?: string
}

/** Pays on the payment page with a card that needs no challenge. */
export async function payAt(
  { payments }: Pick<PaymentsUnderTest, 'payments'>,
  { publicKey }: Pick<TestShop, 'publicKey'>,
  { number = '4100 0000 0000 0001', amount = 1_000n, currency = 'DKK', code = '123' }: TestPayment = {},
): Promise<Transaction> {
  const made = await payByCard(payments, {
    merchantKey: publicKey,
    input: { currency, amount, descriptor: null, custom: null },
    reference: null,
    card: { number, expiryMonth: 12, expiryYear: 2030, code },
    attempt: randomBytes(18).toString('base64url'),
  })
  assert.ok(made.ok, inspect(made))
  return made.value
}
