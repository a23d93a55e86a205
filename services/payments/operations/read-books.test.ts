import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { inspect } from 'node:util'
import { systemClock } from '@tollway/chassis/clock.ts'
import { newPgliteFolder } from '../../../test/support/pglite-folder.ts'
import { missingPostgres, startPostgres } from '../../../test/support/postgres-server.ts'
import { captureTransaction } from '../domain/transaction/change.ts'
import { saveChange } from '../storage/changes.ts'
import { migrate, readMigrations } from '../storage/engine/migrate.ts'
import { openPglite } from '../storage/engine/pglite.ts'
import { openPostgres } from '../storage/engine/postgres.ts'
import type { Storage } from '../storage/storage.ts'
import { insertMerchant } from '../storage/tables/merchants.ts'
import { insertTransaction } from '../storage/tables/transactions.ts'
import { contextOf, someMerchant, someTransaction } from '../storage/testing/payments-under-test.ts'
import { readBooks } from './read-books.ts'
import { storeResult, verifyBooks } from './verify-books.ts'

const parts = { clock: systemClock, random: Math.random }
const beganMs = Date.UTC(2026, 1, 3)
const endedMs = beganMs + 1_500

type OpenDatabase = () => Promise<{ readonly storage: Storage; readonly close: () => Promise<void> }>

async function openServer(): ReturnType<OpenDatabase> {
  const server = await startPostgres()
  const storage = openPostgres({ url: server.urlOf('postgres'), ...parts })
  return { storage, close: () => storage.close().then(() => server.stop()) }
}

async function openEmbedded(): ReturnType<OpenDatabase> {
  const storage = await openPglite({ folder: await newPgliteFolder(), ...parts })
  return { storage, close: () => storage.close() }
}

/** Stores the merchant of a resource, with a transaction of 1.00 EUR of which 0.70 EUR are captured. */
async function openShop(storage: Storage, uid: string | null) {
  const merchant = someMerchant()
  const transaction = someTransaction(merchant, 100n)
  const guard = { currency: null, amount: 70n, descriptor: null }
  const captured = captureTransaction(transaction, guard, contextOf(merchant))
  if (!captured.ok) assert.fail(inspect(captured))
  await storage.transaction(async tx => {
    await insertMerchant(tx, merchant, uid)
    await insertTransaction(tx, transaction)
    saveChange(tx, captured.value)
  })
  return merchant
}

function booksTests(name: string, openDatabase: OpenDatabase, skip: string | false): void {
  describe(`the books, in ${name}`, { skip }, () => {
    let opened: ReturnType<OpenDatabase> | undefined
    const open = async () => {
      opened ??= openDatabase().then(async database => {
        await migrate(database.storage, readMigrations(), systemClock)
        return database
      })
      return (await opened).storage
    }
    after(async () => (await opened)?.close())

    test('balances of merchants are read by the uids of their resources, each in its currency', async () => {
      const storage = await open()
      const [one, other] = [await openShop(storage, 'one'), await openShop(storage, 'other')]
      await openShop(storage, null)
      const { merchants, verification } = await readBooks(storage, ['other', 'unknown', 'one'])
      // 0.70 EUR are 5.22 DKK. The fee is 0.25 DKK and 1.35 %.
      const money = {
        available: { currency: 'DKK', amount: 490n },
        pending: [{ currency: 'EUR', amount: 30n }],
      }
      assert.deepEqual(
        new Map([...merchants].sort()),
        new Map([
          ['one', { merchantId: one.id, ...money }],
          ['other', { merchantId: other.id, ...money }],
        ]),
      )
      assert.equal(verification, undefined)
      assert.equal((await readBooks(storage, [])).merchants.size, 0)
    })

    test('the result of the last proof is stored, with the resources of its first findings', async () => {
      const storage = await open()
      await storeResult(storage, await verifyBooks(storage), { beganMs, endedMs })
      const records = { merchants: 3, transactions: 3, disputes: 0, lines: 3, entries: 3 }
      const passed = { beganMs, endedMs, records, findings: 0, shown: [] }
      assert.deepEqual((await readBooks(storage, [])).verification, passed)

      const merchant = await openShop(storage, 'cheated')
      await storage.transaction(async tx => {
        await tx.query('ALTER TABLE lines DISABLE TRIGGER ALL')
        await tx.query('UPDATE lines SET balance = balance + 1 WHERE merchant_id = $1', [merchant.id])
        await tx.query('ALTER TABLE lines ENABLE TRIGGER ALL')
      })
      const later = { beganMs: endedMs, endedMs: endedMs + 1 }
      await storeResult(storage, await verifyBooks(storage), later)
      const { verification: failed } = await readBooks(storage, [])
      assert.deepEqual([failed?.beganMs, failed?.endedMs], [later.beganMs, later.endedMs])
      assert.equal(failed?.findings, failed?.shown.length)
      const ofMerchant = failed?.shown.find(({ record }) => record === `merchant ${merchant.id}`)
      assert.deepEqual([ofMerchant?.uid, ofMerchant?.merchantId], ['cheated', merchant.id])
      assert.match(ofMerchant?.message ?? '', /^its balance is \d+; its lines make it \d+$/)
    })

    test('a proof that ended earlier does not replace a later one, and few findings are stored', async () => {
      const storage = await open()
      const counts = { merchants: 1n, transactions: 0n, disputes: 0n, lines: 0n, entries: 0n }
      const finding = { merchantId: null, record: 'lines', message: 'x'.repeat(1_000) }
      const findings = Array.from({ length: 1_001 }, () => finding)
      await storeResult(storage, { counts, findings }, { beganMs, endedMs: endedMs + 10 })
      await storeResult(storage, { counts, findings: [] }, { beganMs, endedMs: endedMs + 5 })
      const { verification } = await readBooks(storage, [])
      assert.deepEqual([verification?.findings, verification?.shown.length], [1_001, 100])
      assert.equal(verification?.shown[0]?.message.length, 300)
      assert.equal(verification?.shown[0]?.uid, null)
    })
  })
}

booksTests('PostgreSQL', openServer, missingPostgres())
booksTests('PGlite', openEmbedded, false)
