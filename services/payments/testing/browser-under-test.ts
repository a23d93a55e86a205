import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { launchChromium, newPage } from '../../../test/support/browser.ts'
import { newPgliteFolder } from '../../../test/support/pglite-folder.ts'
import type { Transaction } from '../domain/transaction/transaction.ts'
import { paymentsCheckout } from '../pages/payments-checkout.ts'
import { createTestProcessor } from '../processor/test-processor.ts'
import { migrate, readMigrations } from '../storage/engine/migrate.ts'
import { openPglite } from '../storage/engine/pglite.ts'
import { Idempotency } from '../storage/idempotency/idempotency.ts'
import type { Storage } from '../storage/storage.ts'
import { insertMerchant } from '../storage/tables/merchants.ts'
import { listTransactions } from '../storage/tables/transactions.ts'
import { pagesUnderTest, someMerchant } from './checkout-under-test.ts'
import { createMemoryAnswers, createMemoryJournal } from './memory-stores.ts'

export interface PagesInBrowser {
  /** The origin of the shop to which payers continue. */
  readonly shopOrigin: string
  /** Errors of the browser: blocked content, exceptions in the script, and missing files. */
  readonly complaints: readonly string[]
  linkOf(parameters: Readonly<Record<string, string>>): string
  newPage(options?: BrowserContextOptions): Promise<Page>
  transactions(): Promise<readonly Transaction[]>
  /** Makes each later payment take this much longer. */
  delayPayments(delayMs: number): void
  close(): Promise<void>
}

/** Starts the payment page with real operations on an embedded database, a shop, and a browser. */
export async function openPagesInBrowser(): Promise<PagesInBrowser> {
  const folder = await newPgliteFolder()
  const [browser, storage] = await Promise.all([
    launchChromium(),
    openPglite({ folder, clock: systemClock, random: Math.random }),
  ])
  await migrate(storage, readMigrations(), systemClock)
  const merchant = someMerchant()
  await storage.transaction(tx => insertMerchant(tx, merchant))

  let delayMs = 0
  const checkout = checkoutOn(storage)
  const { app } = pagesUnderTest({
    ...checkout,
    pay: async request => {
      if (delayMs > 0) await pause(delayMs)
      return checkout.pay(request)
    },
  })
  const origin = await app.listen({ host: '127.0.0.1', port: 0 })
  const shop = await openShop()
  const complaints: string[] = []
  return {
    shopOrigin: shop.origin,
    complaints,
    linkOf: parameters => `${origin}/pay/?${new URLSearchParams({ key: merchant.key, ...parameters })}`,
    newPage: options => newPage(browser, complaints, options),
    transactions: async () => {
      const page = await storage.transaction(tx => listTransactions(tx, merchant.id, { limit: 100 }))
      return 'items' in page ? page.items : []
    },
    delayPayments: given => {
      delayMs = given
    },
    async close() {
      await browser.close()
      await app.close()
      shop.close()
      await storage.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function checkoutOn(storage: Storage) {
  const clock = systemClock
  const test = createTestProcessor({
    key: new Uint8Array(32).fill(7),
    journal: createMemoryJournal(),
    answers: createMemoryAnswers(),
    eventDelayMs: 1_000,
    now: () => clock.nowMs(),
  })
  const euro = { numerator: 1n, denominator: 1n }
  const rates = new Map([
    ['EUR', euro],
    ['DKK', { numerator: 74_604n, denominator: 10_000n }],
    ['JPY', { numerator: 163n, denominator: 1n }],
  ])
  return paymentsCheckout({
    storage,
    clock,
    randomBytes,
    idempotency: new Idempotency({ storage, clock, random: Math.random, randomBytes }),
    processors: { test, live: null },
    pricing: { fees: new Map(), rates: { base: 'EUR', rates } },
    invitationLimits: { perApp: 100, perMerchant: 50, perRecipient: 3 },
    trailLimits: { captures: 100, refunds: 100, voids: 100 },
    fundingCurrencies: ['DKK'],
    authorisationSweepMs: 30 * 60 * 1000,
    authorisationLifetimeMs: 7 * 24 * 60 * 60 * 1000,
    webhookPolicy: new AddressPolicy([], false),
  })
}

async function openShop() {
  const server = createServer((request, response) => {
    response.setHeader('content-type', request.url === '/favicon.ico' ? 'image/x-icon' : 'text/html')
    response.end('<!doctype html><html lang="en"><title>Thanks</title><h1>Thanks</h1></html>')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { origin, close: () => server.close() }
}
