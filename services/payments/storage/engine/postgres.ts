import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'
import pg from 'pg'
import { type SqlValue, type Storage, StorageError, type TransactionOptions } from '../storage.ts'
import { PostgresClient } from './postgres-client.ts'
import {
  createTransactionRunner,
  defaultRetryLimits,
  type RetryLimits,
  type Session,
} from './run-transaction.ts'

export interface PostgresOptions {
  /**
   * `postgres://user:password@host:port/database`, with the parameters of libpq. The files of `sslrootcert`,
   * `sslcert` and `sslkey` are read for each new connection.
   */
  readonly url: string
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Connections at most. */
  readonly maxConnections?: number
  /** Transactions that may wait for a connection; one more is refused at once. */
  readonly maxWaiting?: number
  /** For a free connection, or for a new one to be made. */
  readonly connectTimeoutMs?: number
  /** For one statement: asked of the server, and kept by this side when the server is silent. */
  readonly statementTimeoutMs?: number
  /** For one lock; the transaction is then tried again. */
  readonly lockTimeoutMs?: number
  readonly retries?: RetryLimits
  /** Called with the error of an idle connection that broke. The text contains no secret. */
  readonly onIdleError?: (message: string) => void
}

const defaults = {
  maxConnections: 16,
  maxWaiting: 1_000,
  connectTimeoutMs: 3_000,
  statementTimeoutMs: 5_000,
  lockTimeoutMs: 2_000,
}

/** The server's own timeout comes first, so that a connection is given up only when the server is silent. */
const graceMs = 500
/** A transaction whose process has stopped must not keep its locks. */
const idleInTransactionTimeoutMs = 30_000
const idleTimeoutMs = 60_000
/** Connections are renewed, so that they spread over the servers behind an address that has moved. */
const maxLifetimeSeconds = 1_800
/** Statements of the program that a connection keeps prepared. The texts are constants, so there are few. */
const maxPrepared = 500

/** Opens no connection before the first transaction. */
export function openPostgres(options: PostgresOptions): Storage {
  const settings = { ...defaults, ...definedOnly(options) }
  const pool = new pg.Pool({
    Client: PostgresClient,
    connectionString: options.url,
    application_name: 'tollway-payments',
    max: settings.maxConnections,
    connectionTimeoutMillis: settings.connectTimeoutMs,
    idleTimeoutMillis: idleTimeoutMs,
    maxLifetimeSeconds,
    statement_timeout: settings.statementTimeoutMs,
    lock_timeout: settings.lockTimeoutMs,
    idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
    keepAlive: true,
    // A statement goes out without waiting for the answers to those before it.
    pipeline: true,
    types: { getTypeParser: typeParser },
  })
  pool.on('error', error => options.onIdleError?.(error.message))
  const nameOf = createStatementNames()

  async function openSession({ statementTimeoutMs }: TransactionOptions): Promise<Session> {
    if (pool.waitingCount >= settings.maxWaiting) {
      throw new StorageError('unavailable', `${settings.maxWaiting} transactions wait for a connection`)
    }
    const client = await checkOut(pool)
    const timeoutMs = (statementTimeoutMs ?? settings.statementTimeoutMs) + graceMs
    const session = sessionOf(client, nameOf, timeoutMs)
    return statementTimeoutMs === undefined ? session : withStatementTimeout(session, statementTimeoutMs)
  }

  const { clock, random } = options
  const limits = options.retries ?? defaultRetryLimits
  return {
    ...createTransactionRunner({ openSession, clock, random, limits }),
    close: () => pool.end(),
  }
}

/** An option that is given as undefined counts as left out. */
function definedOnly(options: PostgresOptions): Partial<typeof defaults> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}

async function checkOut(pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect()
  } catch (cause) {
    const message = `no connection to the database: ${(cause as Error).message}`
    throw new StorageError('unavailable', message, { cause })
  }
}

function sessionOf(
  client: pg.PoolClient,
  nameOf: (sql: string) => string | undefined,
  timeoutMs: number,
): Session {
  // A connection that breaks between two statements says so here; the next statement fails by itself.
  const ignore = () => {}
  client.on('error', ignore)
  const silence = watchSilence(client, timeoutMs)
  return {
    query(sql, params) {
      const name = nameOf(sql)
      const config = { text: sql, values: params.map(driverValue) }
      holdWrites(socketOf(client))
      return silence.during(rowsOf(client, name === undefined ? config : { ...config, name }))
    },
    // The driver writes all values that `send` accepts.
    commitWaits: false,
    async script(sql) {
      await silence.during(rowsOf(client, { text: sql }))
    },
    release(broken) {
      silence.end()
      client.off('error', ignore)
      // Without this the pool would wait for the farewell of a peer that has gone silent.
      if (broken) socketOf(client).destroy()
      client.release(broken)
    },
  }
}

/**
 * By a callback. Promises that the driver makes by itself, and timers that it keeps for each statement, make
 * V8 take the rows of all that were answered for alive until a collection of the whole heap: those of its
 * young part then copy half a second's rows, for 15 to 30 ms instead of one.
 */
function rowsOf(client: pg.PoolClient, config: pg.QueryConfig): Promise<readonly unknown[]> {
  return new Promise((resolve, reject) => {
    client.query(config, (error: Error | null, result: pg.QueryResult) => {
      if (error) reject(error)
      else resolve(result.rows)
    })
  })
}

/**
 * Cuts the connection, which fails its statements, when none of those that wait is answered for this time.
 */
function watchSilence(client: pg.PoolClient, timeoutMs: number) {
  let waiting = 0
  const timer = setTimeout(() => {
    if (waiting > 0) socketOf(client).destroy(new Error(`no answer for ${timeoutMs} ms`))
  }, timeoutMs)
  let ended = false
  const answered = () => {
    waiting -= 1
    if (!ended) timer.refresh()
  }
  return {
    during<T>(statement: Promise<T>): Promise<T> {
      if (waiting === 0) timer.refresh()
      waiting += 1
      statement.then(answered, answered)
      return statement
    },
    end() {
      // Of a connection that broke, some may fail only after this: they must not start the timer again.
      ended = true
      clearTimeout(timer)
    },
  }
}

function socketOf(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream
}

/** Statements that are given in one turn go out in one write. */
function holdWrites(socket: Socket): void {
  socket.cork()
  process.nextTick(() => socket.uncork())
}

/** The limit is set once the transaction has begun, and ends with it. */
function withStatementTimeout(session: Session, timeoutMs: number): Session {
  let begun = false
  return {
    ...session,
    async query(sql, params) {
      const rows = await session.query(sql, params)
      if (!begun) {
        begun = true
        await session.query(`SET LOCAL statement_timeout = ${Math.ceil(timeoutMs)}`, [])
      }
      return rows
    },
  }
}

/** Statements that frame transactions need no plan, and go by the shorter protocol. */
const framing = /^(BEGIN|COMMIT|ROLLBACK|SET LOCAL)\b/

/** Names by content: the same statement has the same name on every connection and in every process. */
function createStatementNames(): (sql: string) => string | undefined {
  const names = new Map<string, string>()
  return sql => {
    if (framing.test(sql)) return undefined
    const known = names.get(sql)
    if (known !== undefined) return known
    if (names.size >= maxPrepared) return undefined
    const name = createHash('sha256').update(sql).digest('base64url').slice(0, 22)
    names.set(sql, name)
    return name
  }
}

function driverValue(value: SqlValue): unknown {
  return value instanceof Uint8Array && !Buffer.isBuffer(value) ? Buffer.from(value) : value
}

const int8Oid = 20

const typeParser = ((oid: number, format?: 'text' | 'binary') =>
  oid === int8Oid && format !== 'binary'
    ? BigInt
    : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser
