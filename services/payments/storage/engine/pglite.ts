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
  /** Created if it is missing. It contains the database in `data`, and the lock. */
  readonly folder: string
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The most transactions that wait for the one connection. Further ones are rejected at once. */
  readonly maxWaiting?: number
  /** The longest wait for the one connection. */
  readonly connectTimeoutMs?: number
  readonly retries?: RetryLimits
}

const defaultMaxWaiting = 1_000
const defaultConnectTimeoutMs = 10_000

/**
 * Opens PostgreSQL inside this process, on one connection, with its files in a folder that no other process
 * may open.
 *
 * The files are written but never flushed to the disk: a commit survives the end of the process by any
 * signal, but not a power failure. Statement timeouts have no effect, because a statement runs in this thread
 * to its end.
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
    // There is only one connection, so a broken one is not replaced: its next statement fails too.
    release,
  }
}

/** Queues transactions for the only connection, in the order of their requests. */
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
    /** Rejects new turns, and resolves after all earlier turns have ended. */
    async end(): Promise<void> {
      ended = true
      await wait()
    },
  }
}

/**
 * Creates the folder for its owner only, and locks it. The lock is that of an SQLite file, which the
 * system releases when the process ends. A file with a process id would outlive a killed process, and
 * another process may get its id.
 *
 * @returns releases the lock
 * @throws StorageError `unavailable` if another storage of any process has the folder
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
