import { join } from 'node:path'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Settings } from './settings.ts'
import { migrate, readMigrations } from './storage/engine/migrate.ts'
import type { Storage } from './storage/storage.ts'

/** Returns the folder `payments` of STATE_DIR, with the embedded database and the files of the service. */
export function dataFolder({ stateDir }: Pick<Settings, 'stateDir'>): string {
  return join(stateDir, 'payments')
}

/** Opens the configured database without a migration. Loads only the module of that database. */
export function openDatabase(settings: Settings, log: Log): Promise<Storage> {
  return settings.databaseUrl === '' ? openEmbedded(settings, log) : openServer(settings, log)
}

/** Opens the configured database, and migrates it to the schema of this program. */
export async function openStorage(settings: Settings, log: Log): Promise<Storage> {
  const storage = await openDatabase(settings, log)
  try {
    const { applied, unknown } = await migrate(storage, readMigrations(), systemClock)
    if (applied.length > 0) log.info('migrate database', { applied })
    if (unknown.length > 0) log.warn('find migrations of a newer version', { unknown })
    return storage
  } catch (error) {
    await storage.close()
    throw error
  }
}

async function openEmbedded(settings: Settings, log: Log): Promise<Storage> {
  const { openPglite } = await import('./storage/engine/pglite.ts')
  const folder = dataFolder(settings)
  log.info('open embedded database', { folder, survivesPowerFailure: false })
  return openPglite({ folder, clock: systemClock, random: Math.random })
}

async function openServer(settings: Settings, log: Log): Promise<Storage> {
  const { openPostgres } = await import('./storage/engine/postgres.ts')
  return openPostgres({
    url: settings.databaseUrl,
    clock: systemClock,
    random: Math.random,
    maxConnections: settings.databaseConnections,
    statementTimeoutMs: settings.databaseStatementTimeoutMs,
    onIdleError: error => log.warn('keep idle database connection failed', { reason: error }),
  })
}
