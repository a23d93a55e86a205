import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { migrate, readMigrations } from '../engine/migrate.ts'
import type { Storage } from '../storage.ts'

/** @param open called once for each test; resolves with an empty database */
export function migrateContract(
  name: string,
  open: () => Promise<Storage>,
  skip: string | false = false,
): void {
  describe(`migrations on ${name}`, { skip }, () => {
    for (const [rule, run] of Object.entries(rules)) test(rule, async () => run(await open()))
  })
}

type Migration = ReturnType<typeof readMigrations>[number]

function migration(number: number, sql: string): Migration {
  return { name: `000${number}_test.sql`, sql, checksum: `sum of ${sql}` }
}

const one = migration(1, 'CREATE TABLE one (n int); INSERT INTO one VALUES (1)')
const two = migration(2, 'ALTER TABLE one ADD COLUMN text text')
const apply = (storage: Storage, ...migrations: Migration[]) =>
  migrate(storage, migrations, systemClock, 5_000)

const rules: Record<string, (storage: Storage) => Promise<void>> = {
  'each migration is applied once, in order': async storage => {
    assert.deepEqual(await apply(storage, one), { applied: [one.name], unknown: [] })
    assert.deepEqual(await apply(storage, one, two), { applied: [two.name], unknown: [] })
    assert.deepEqual(await apply(storage, one, two), { applied: [], unknown: [] })
    const rows = await storage.transaction(tx => tx.query('SELECT n, text FROM one'))
    assert.deepEqual(rows, [{ n: 1, text: null }])
  },

  'an older program starts on a newer database with a warning': async storage => {
    await apply(storage, one, two)
    assert.deepEqual(await apply(storage, one), { applied: [], unknown: [two.name] })
  },

  'a changed or missing migration is rejected': async storage => {
    await apply(storage, one)
    const changed = migration(1, 'CREATE TABLE other (n int)')
    await assert.rejects(apply(storage, changed), /0001_test\.sql was changed after it was applied/)
    await assert.rejects(apply(storage, migration(0, 'SELECT 1'), one), /was applied before 0000_test/)
  },

  'a failed migration changes nothing': async storage => {
    await assert.rejects(apply(storage, one, migration(2, 'SELEC 1')), { code: 'refused' })
    assert.deepEqual(await apply(storage, one), { applied: [one.name], unknown: [] })
  },

  'only one of several simultaneous processes migrates': async storage => {
    const slow = migration(2, 'SELECT pg_sleep(0.15)')
    const reports = await Promise.all(Array.from({ length: 5 }, () => apply(storage, one, slow)))
    assert.deepEqual(reports.map(report => report.applied.length).sort(), [0, 0, 0, 0, 2])
  },

  'the migrations of the service can be read and applied': async storage => {
    const own = readMigrations()
    const report = await migrate(storage, own, systemClock)
    assert.deepEqual(
      report.applied,
      own.map(({ name }) => name),
    )
  },
}
