import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Storage, Tx } from '../storage.ts'

/** A file `NNNN_name.sql` that changes the schema. Applied once, and never changed or undone afterwards. */
interface Migration {
  readonly name: string
  readonly sql: string
  readonly checksum: string
}

interface MigrationReport {
  readonly applied: readonly string[]
  /** The migrations that a newer version of the program has applied. */
  readonly unknown: readonly string[]
}

class MigrationError extends Error {
  override readonly name = 'MigrationError'
}

const filePattern = /^\d{4}_[a-z0-9_]+\.sql$/
const ownFolder = fileURLToPath(new URL('migrations/', import.meta.url))

/** The key of the advisory lock of migrations: the bytes of "tollway". */
const lockKey = 0x746f6c6c776179n
const migrationTimeoutMs = 600_000
const lockLookMs = 100

/** @throws MigrationError if a number is missing or occurs twice */
export function readMigrations(folder: string = ownFolder): readonly Migration[] {
  const names = readdirSync(folder).filter(name => filePattern.test(name))
  names.sort()
  for (const [index, name] of names.entries()) {
    const expected = String(index + 1).padStart(4, '0')
    if (name.startsWith(expected)) continue
    throw new MigrationError(`found ${name}; expected a migration with the number ${expected}`)
  }
  return names.map(name => {
    const sql = readFileSync(join(folder, name), 'utf8')
    return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
  })
}

/**
 * Applies the missing migrations in one transaction: all or none. Only one process migrates at a time; others
 * wait for at most `waitMs`.
 *
 * @throws MigrationError if an applied migration was changed, an earlier one was not applied, or the wait was
 *   too long
 */
export async function migrate(
  storage: Storage,
  migrations: readonly Migration[],
  clock: Clock,
  waitMs: number = migrationTimeoutMs,
): Promise<MigrationReport> {
  const giveUpMs = clock.monotonicMs() + waitMs
  for (;;) {
    const report = await storage.transaction(tx => migrateAlone(tx, migrations), {
      statementTimeoutMs: migrationTimeoutMs,
    })
    if (report !== 'busy') return report
    if (clock.monotonicMs() > giveUpMs) {
      throw new MigrationError(`another process has been migrating for ${waitMs} ms`)
    }
    await pause(lockLookMs)
  }
}

async function migrateAlone(tx: Tx, migrations: readonly Migration[]): Promise<MigrationReport | 'busy'> {
  // `migrate` tries this lock again and again, because a statement that waits for it would fail after the
  // lock timeout.
  const [lock] = await tx.query<{ locked: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS locked', [
    lockKey,
  ])
  if (lock?.locked !== true) return 'busy'
  await tx.script(`CREATE TABLE IF NOT EXISTS schema_migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied timestamptz NOT NULL DEFAULT now()
  )`)
  const pending = await findPending(tx, migrations)
  for (const { name, sql, checksum } of pending.migrations) {
    await tx.script(sql)
    await tx.query('INSERT INTO schema_migrations (name, checksum) VALUES ($1, $2)', [name, checksum])
  }
  return { applied: pending.migrations.map(({ name }) => name), unknown: pending.unknown }
}

async function findPending(tx: Tx, migrations: readonly Migration[]) {
  const rows = await tx.query<{ name: string; checksum: string }>(
    'SELECT name, checksum FROM schema_migrations ORDER BY name',
  )
  const applied = new Map(rows.map(row => [row.name, row.checksum]))
  const pending: Migration[] = []
  for (const migration of migrations) {
    const checksum = applied.get(migration.name)
    applied.delete(migration.name)
    if (checksum === undefined) pending.push(migration)
    else if (checksum !== migration.checksum) {
      const both = `${checksum.slice(0, 12)} when it was applied, ${migration.checksum.slice(0, 12)} now`
      throw new MigrationError(`${migration.name} was changed after it was applied: ${both}`)
    } else if (pending.length > 0) {
      throw new MigrationError(`${migration.name} was applied before ${pending[0]?.name}`)
    }
  }
  return { migrations: pending, unknown: [...applied.keys()] }
}
