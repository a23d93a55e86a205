import { after, before, describe } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import {
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../../../../test/support/postgres-server.ts'
import type { Storage } from '../storage.ts'
import { concurrencyContract } from '../testing/concurrency.contract.ts'
import { idempotencyContract } from '../testing/idempotency.contract.ts'
import { migrateContract } from '../testing/migrate.contract.ts'
import { pruningContract } from '../testing/pruning.contract.ts'
import { repositoriesContract } from '../testing/repositories.contract.ts'
import { searchContract } from '../testing/search.contract.ts'
import { storageContract } from '../testing/storage.contract.ts'
import { webhookDeliveriesContract } from '../testing/webhook-deliveries.contract.ts'
import { migrate, readMigrations } from './migrate.ts'
import { openPostgres } from './postgres.ts'

const skip = missingPostgres()
const clock = systemClock
const random = Math.random

describe('PostgreSQL', { skip }, () => {
  let server: PostgresServer
  const opened: Storage[] = []
  before(async () => {
    server = await startPostgres(['deadlock_timeout=50ms'])
  })
  after(async () => {
    for (const storage of opened) await storage.close()
    await server.stop()
  })

  async function openDatabase(name: string, maxConnections: number): Promise<Storage> {
    const url = await server.createDatabase(name)
    const storage = openPostgres({ url, clock, random, maxConnections })
    opened.push(storage)
    return storage
  }

  for (const maxConnections of [16, 1]) {
    const name = `PostgreSQL on ${maxConnections} connections`
    storageContract(name, async () => ({
      storage: await openDatabase(`contract_${maxConnections}`, maxConnections),
      single: maxConnections === 1,
    }))
    let payments: Promise<Storage> | undefined
    const openPayments = () => {
      payments ??= openDatabase(`payments_${maxConnections}`, maxConnections).then(async storage => {
        await migrate(storage, readMigrations(), clock)
        return storage
      })
      return payments
    }
    idempotencyContract(name, openPayments)
    // Runs the other contracts with several connections only: the tests of PGlite run them with one.
    if (maxConnections === 1) continue
    repositoriesContract(name, openPayments)
    webhookDeliveriesContract(name, openPayments)
    pruningContract(name, openPayments, 'several')
    concurrencyContract(name, openPayments)
    // Comes after the contracts that verify the books, because its transactions have amounts without a trail.
    searchContract(name, openPayments)
  }

  let databases = 0
  migrateContract('PostgreSQL', () => {
    databases += 1
    return openDatabase(`migrations_${databases}`, 8)
  })
})
