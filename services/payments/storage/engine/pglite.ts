import { join } from 'node:path'
import { PGlite, type Results } from '@electric-sql/pglite'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type Storage, StorageError } from '../storage.ts'
import { lockFolder } from './folder-lock.ts'
import {
  createTransactionRunner,
  defaultRetryLimits,
  type RetryLimits,
  type Session,
} from './run-transaction.ts'

export interface PgliteOptions {
  /** Made when it is not there; holds the database in `data` and the lock beside it. */
  readonly folder: string
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Transactions that may wait for the one connection; one more is refused at once. */
  readonly maxWaiting?: number
  /** For the one connection to be free. */
  readonly connectTimeoutMs?: number
  readonly retries?: RetryLimits
}

const defaultMaxWaiting = 1_000
const defaultConnectTimeoutMs = 10_000

/**
 * PostgreSQL inside this process, on one connection, with its files in a folder that no other process may
 * open.
 *
 * Its files are written but never forced to the disk: what was committed outlives the end of the process by
 * any signal, and not a loss of power. Statement timeouts have no effect: a statement runs in this thread to
 * its end.
 *
 * @throws StorageError `unavailable` when the folder is in use.
 */
export async function openPglite(options: PgliteOptions): Promise<Storage> {
  const lock = lockFolder(options.folder)
  let database: PGlite
  try {
    database = await PGlite.create(join(options.folder, 'data'), { parsers: { [int8Oid]: BigInt } })
  } catch (cause) {
    lock.release()
    const message = `the database in ${options.folder} cannot be opened: ${(cause as Error).message}`
    throw new StorageError('unavailable', message, { cause })
  }
  const turns = createTurns(
    options.maxWaiting ?? defaultMaxWaiting,
    options.connectTimeoutMs ?? defaultConnectTimeoutMs,
  )

  async function openSession(): Promise<Session> {
    const release = await turns.take()
    return sessionOf(database, release)
  }

  const { clock, random } = options
  const limits = options.retries ?? defaultRetryLimits
  return {
    ...createTransactionRunner({ openSession, clock, random, limits }),
    async close() {
      await turns.end()
      await database.close()
      lock.release()
    },
  }
}

const int8Oid = 20

function sessionOf(database: PGlite, release: () => void): Session {
  return {
    async query(sql, params) {
      const { rows }: Results<unknown> = await database.query(sql, [...params])
      return rows
    },
    async script(sql) {
      await database.exec(sql)
    },
    commitWaits: true,
    // There is no other connection to go to: one that is broken fails at the next statement too.
    release,
  }
}

/** Who may use the one connection: one after another, in the order of asking. */
function createTurns(maxWaiting: number, timeoutMs: number) {
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
    /** Refuses further turns. Resolves when the turns that were requested before have ended. */
    async end(): Promise<void> {
      ended = true
      await wait()
    },
  }
}
