import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { settings } from '@tollway/payments/settings.ts'
import { runAdmin } from '../../services/payments/admin/run-admin.ts'
import { openStorage } from '../../services/payments/open-storage.ts'
import { payByCard } from '../../services/payments/operations/testing/pay-under-test.ts'
import { createPayments } from '../../services/payments/service.ts'
import { freePorts } from '../support/free-ports.ts'
import { type Program, startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'

export function paymentsEnv(databaseUrl: string): Readonly<Record<string, string>> {
  return {
    PATH: process.env['PATH'] ?? '',
    DATABASE_URL: databaseUrl,
    MAX_CAPTURES: '10000',
    API_CALLS_PER_KEY: '10000000',
    API_CALLS_PER_ADDRESS: '10000000',
    STATE_DIR: join(tmpdir(), `tollway-payments-${process.pid}`),
    TEST_PROCESSOR_KEY: 'a key for the tests alone',
    PAY_PAGE_SECRET: 'another key, for the tests alone too',
    HOST: '127.0.0.1',
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: '0',
    DRAIN_DELAY: '0s',
    LOG_LEVEL: 'warn',
    BACKGROUND_INTERVAL: '100ms',
    IDEMPOTENCY_LEASE: '15s',
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_ALLOW_HTTP: 'true',
    FEES: '{"DKK": {"capture": {"flat": "25", "rate": "0.0135"}, "dispute": {"flat": "10000"}}}',
  }
}

export function removeState(): Promise<void> {
  return rm(paymentsEnv('')['STATE_DIR'] ?? '', { recursive: true, force: true })
}

export interface PaymentsProcess {
  readonly url: string
  output(): string
  kill(): Promise<void>
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  start(): Promise<void>
}

export async function startPaymentsProcess(
  databaseUrl: string,
  more: Readonly<Record<string, string>> = {},
  program = programs.payments,
): Promise<PaymentsProcess> {
  const [port = 0] = await freePorts(1)
  const url = `http://127.0.0.1:${port}`
  let said = ''
  let running: Program
  const process_ = {
    url,
    output: () => said + running.output(),
    async kill() {
      await running.end('SIGKILL')
    },
    signal: (signal: NodeJS.Signals) => void running.process.kill(signal),
    async start() {
      said += running?.output() ?? ''
      const env = { ...paymentsEnv(databaseUrl), PORT: String(port), LOG_LEVEL: 'info', ...more }
      running = startProgram(process.execPath, [program], { env })
      // Earlier versions, which the tests of upgrades start, log `serving`.
      await running.said(/msg=(?:"start service"|serving) /, 30_000)
    },
  }
  running = startProgram(process.execPath, ['--version'])
  await process_.start()
  return process_
}

/** Runs an admin command on the database; resolves with its exit code and its output. */
export async function askAdmin(
  databaseUrl: string,
  args: readonly string[],
): Promise<{ readonly code: number; readonly output: string }> {
  let output = ''
  const hear = (text: string) => {
    output += text
  }
  const code = await runAdmin(args, paymentsEnv(databaseUrl), { print: hear, printError: hear })
  return { code, output }
}

export interface Shop {
  readonly authorization: string
  readonly merchantId: string
  /** The id of a payment that recurring ones can be made from. */
  readonly transactionId: string
}

/** Creates a merchant through the API, with one payment as from the payment page. */
export async function openShop(databaseUrl: string, url: string): Promise<Shop> {
  const post = async (path: string, body: object, headers: Record<string, string> = {}) => {
    const content = { 'content-type': 'application/json', ...headers }
    const response = await fetch(url + path, { method: 'POST', headers: content, body: JSON.stringify(body) })
    assert.equal(response.status, 201, path)
    return response.json()
  }
  const { app } = (await post('/apps', { name: 'till' })) as { app: { key: string } }
  const authorization = `Basic ${Buffer.from(`:${app.key}`).toString('base64')}`
  const input = {
    currency: 'DKK',
    test: true,
    email: 'jane@example.com',
    website: 'https://example.com',
    descriptor: 'Coffee',
    company: { country: 'DK' },
    bank: { iban: 'DK5000400440116243' },
  }
  const { merchant } = (await post('/merchants', input, { authorization })) as {
    merchant: { id: string; key: string }
  }
  const transactionId = await payOnce(databaseUrl, merchant.key)
  return { authorization, merchantId: merchant.id, transactionId }
}

async function payOnce(databaseUrl: string, merchantKey: string): Promise<string> {
  const read = readSettings(settings, paymentsEnv(databaseUrl), () => '')
  assert.ok('value' in read, inspect(read))
  const storage = await openStorage(read.value, silentLog)
  try {
    const made = await payByCard(createPayments(read.value, storage), {
      merchantKey,
      input: { currency: 'DKK', amount: 100_000n, descriptor: null, custom: null },
      reference: null,
      card: {
        number: '4100 0000 0000 0001',
        expiryMonth: 12,
        expiryYear: new Date().getUTCFullYear() + 3,
        code: '123',
      },
      attempt: randomBytes(18).toString('base64url'),
    })
    assert.ok(made.ok, inspect(made))
    return made.value.id
  } finally {
    await storage.close()
  }
}
