import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { PGlite, type Results } from '@electric-sql/pglite'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type Storage, StorageError } from '../storage.ts'
import {
  createTransactionRunner,
  type DatabaseSession,
  defaultRetryLimits,
  type RetryLimits,
} from './run-transaction.ts'

export interface PgliteOptions {
  /** The folder of the database, which is in `data`, and of the lock file. Created if it is missing. */
  readonly folder: string
  readonly clock: Clock
  /** Returns a random number in [0, 1), which spreads the waits between attempts. */
  readonly random: () => number
  /** At most this many transactions wait for the only connection; further ones fail at once. */
  readonly maxWaiting?: number
  /** A transaction that has waited this long for the connection fails. */
  readonly connectTimeoutMs?: number
  readonly retries?: RetryLimits
}

const defaultMaxWaiting = 1_000
const defaultConnectTimeoutMs = 10_000

/**
 * Opens PostgreSQL inside this process, with one connection. No other process can open the same folder
 * meanwhile.
 *
 * The files are written but not flushed to the disk: a commit survives a killed process, but not a power
 * failure. Statement timeouts have no effect, because a statement occupies this thread until it ends.
 *
 * @throws StorageError `unavailable` when the folder is in use.
 */
export async function openPglite(options: PgliteOptions): Promise<Storage> {
  const unlock = lockFolder(options.folder)
  let database: PGlite
  try {
    database = await PGlite.create(join(options.folder, 'data'), { parsers: { [int8Oid]: BigInt } })
  } catch (cause) {
    unlock()
    const message = `the database in ${options.folder} cannot be opened: ${(cause as Error).message}`
    throw new StorageError('unavailable', message, { cause })
  }
  const turns = createConnectionQueue(
    options.maxWaiting ?? defaultMaxWaiting,
    options.connectTimeoutMs ?? defaultConnectTimeoutMs,
  )

  async function openSession(): Promise<DatabaseSession> {
    const release = await turns.take()
    return createSession(database, release)
  }

  const { clock, random } = options
  const limits = options.retries ?? defaultRetryLimits
  return {
    ...createTransactionRunner({ openSession, clock, random, limits }),
    async close() {
      await turns.end()
      await database.close()
      unlock()
    },
  }
}

const int8Oid = 20

function createSession(database: PGlite, release: () => void): DatabaseSession {
  return {
    async query(sql, params) {
      const { rows }: Results<unknown> = await database.query(sql, [...params])
      return rows
    },
    async script(sql) {
      await database.exec(sql)
    },
    commitWaits: true,
    // Ignores `broken`, because the only connection cannot be replaced. Its next statement fails too.
    release,
  }
}

function createConnectionQueue(maxWaiting: number, timeoutMs: number) {
  const waiting: (() => void)[] = []
  let taken = false
  let ended = false

  function release(): void {
    const next = waiting.shift()
    if (next === undefined) taken = false
    else next()
  }

  async function wait(): Promise<void> {
    if (!taken) {
      taken = true
      return
    }
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(turn), 1)
        reject(new StorageError('unavailable', `the database was not free for ${timeoutMs} ms`))
      }, timeoutMs)
      const turn = () => {
        clearTimeout(timer)
        resolve()
      }
      waiting.push(turn)
    })
  }

  return {
    async take(): Promise<() => void> {
      if (ended) throw new StorageError('unavailable', 'the storage is closed')
      if (waiting.length >= maxWaiting) {
        throw new StorageError('unavailable', `${maxWaiting} transactions wait for the database`)
      }
      await wait()
      return release
    },
    /** Rejects new transactions, and resolves after the running and the waiting ones have ended. */
    async end(): Promise<void> {
      ended = true
      await wait()
    },
  }
}

/**
 * Creates the folder, accessible only to its owner, and locks it through the lock on an SQLite file. The
 * operating system releases that lock when the process ends. A file with a process id would remain after a
 * killed process, and another process may get the same id.
 *
 * @returns a function that releases the lock
 * @throws StorageError `unavailable` if this or another process has the folder open already
 */
export function lockFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  const file = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
  try {
    file.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    file.close()
    throw new StorageError('unavailable', `the folder ${folder} is in use by another process`, { cause })
  }
  return () => file.close()
}
