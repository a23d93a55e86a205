import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'
import pg from 'pg'
import { type SqlValue, type Storage, StorageError, type TransactionOptions } from '../storage.ts'
import {
  createTransactionRunner,
  type DatabaseSession,
  defaultRetryLimits,
  type RetryLimits,
} from './run-transaction.ts'

export interface PostgresOptions {
  /**
   * `postgres://user:password@host:port/database`, with the parameters of libpq. The files of `sslrootcert`,
   * `sslcert` and `sslkey` are read for each new connection.
   */
  readonly url: string
  readonly clock: Clock
  /** Returns a random number in [0, 1), which spreads the waits between attempts. */
  readonly random: () => number
  readonly maxConnections?: number
  /** At most this many transactions wait for a connection; further ones fail at once. */
  readonly maxWaiting?: number
  /** A transaction that has waited this long for a free or a new connection fails. */
  readonly connectTimeoutMs?: number
  /**
   * The maximum time of one statement. The server ends a longer one. If the server does not answer, this
   * process closes the connection `graceMs` later.
   */
  readonly statementTimeoutMs?: number
  /** The maximum wait of a statement for a lock. After it, the transaction is retried. */
  readonly lockTimeoutMs?: number
  readonly retries?: RetryLimits
  /** Called when an unused connection breaks. The message contains no secret. */
  readonly onIdleError?: (message: string) => void
}

const defaults = {
  maxConnections: 16,
  maxWaiting: 1_000,
  connectTimeoutMs: 3_000,
  statementTimeoutMs: 5_000,
  lockTimeoutMs: 2_000,
}

/** How much longer this process waits than the server, so that the timeout of the server comes first. */
const graceMs = 500
/** The server ends a transaction without statements, so that a stopped process does not keep locks. */
const idleInTransactionTimeoutMs = 30_000
const idleTimeoutMs = 60_000
/** Connections are replaced at this age, so that they reach the present servers behind the host name. */
const maxLifetimeSeconds = 1_800
/** The maximum number of different statements that are prepared. Further ones run unprepared. */
const maxPrepared = 500

/** Creates the storage. The first transaction or read opens the first connection. */
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
    // The driver sends a statement without waiting for the answers to earlier ones.
    pipeline: true,
    types: { getTypeParser: typeParser },
  })
  pool.on('error', error => options.onIdleError?.(error.message))
  const nameOf = createStatementNames()

  async function openSession({ statementTimeoutMs }: TransactionOptions): Promise<DatabaseSession> {
    if (pool.waitingCount >= settings.maxWaiting) {
      throw new StorageError('unavailable', `${settings.maxWaiting} transactions wait for a connection`)
    }
    const client = await checkOut(pool)
    const timeoutMs = (statementTimeoutMs ?? settings.statementTimeoutMs) + graceMs
    const session = createSession(client, nameOf, timeoutMs)
    return statementTimeoutMs === undefined ? session : withStatementTimeout(session, statementTimeoutMs)
  }

  const { clock, random } = options
  const limits = options.retries ?? defaultRetryLimits
  return {
    ...createTransactionRunner({ openSession, clock, random, limits }),
    close: () => pool.end(),
  }
}

/** Removes options that are undefined, because they would replace the defaults. */
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

function createSession(
  client: pg.PoolClient,
  nameOf: (sql: string) => string | undefined,
  timeoutMs: number,
): DatabaseSession {
  // Without a listener, the error of a connection that breaks between two statements would end the process.
  // It can be ignored, because the next statement fails too.
  const ignore = () => {}
  client.on('error', ignore)
  const silence = watchSilence(client, timeoutMs)
  return {
    query(sql, params) {
      const name = nameOf(sql)
      const config = { text: sql, values: params.map(driverValue) }
      holdWrites(rawSocket(client))
      return silence.during(runQuery(client, name === undefined ? config : { ...config, name }))
    },
    // False, because the driver can serialise all values that `send` accepts.
    commitWaits: false,
    async script(sql) {
      await silence.during(runQuery(client, { text: sql }))
    },
    release(broken) {
      silence.end()
      client.off('error', ignore)
      // Without this, the pool would wait for a server that does not answer to close the connection.
      if (broken) rawSocket(client).destroy()
      client.release(broken)
    },
  }
}

/**
 * Runs a query through the driver's callback. With the driver's promises, V8 keeps the rows of answered
 * statements until a full garbage collection, and minor collections take 15 to 30 ms instead of 1 ms.
 */
function runQuery(client: pg.PoolClient, config: pg.QueryConfig): Promise<readonly unknown[]> {
  return new Promise((resolve, reject) => {
    client.query(config, (error: Error | null, result: pg.QueryResult) => {
      if (error) reject(error)
      else resolve(result.rows)
    })
  })
}

/** Closes the connection, and so fails the waiting statements, if none is answered for `timeoutMs`. */
function watchSilence(client: pg.PoolClient, timeoutMs: number) {
  let waiting = 0
  const timer = setTimeout(() => {
    if (waiting > 0) rawSocket(client).destroy(new Error(`no answer for ${timeoutMs} ms`))
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
      // Statements of a broken connection can fail after this call, and must not restart the timer.
      ended = true
      clearTimeout(timer)
    },
  }
}

function rawSocket(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream
}

/** Collects the statements that are sent before the next tick, and writes them to the socket at once. */
function holdWrites(socket: Socket): void {
  socket.cork()
  process.nextTick(() => socket.uncork())
}

/** Sets the statement timeout after the first statement, BEGIN. The setting ends with the transaction. */
function withStatementTimeout(session: DatabaseSession, timeoutMs: number): DatabaseSession {
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

/** Statements that begin, end or configure a transaction have no plan, so preparing them gains nothing. */
const framing = /^(BEGIN|COMMIT|ROLLBACK|SET LOCAL)\b/

/** Names statements by a hash of the text, the same in every process; undefined for unprepared ones. */
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

type Connected = (error: Error | null) => void

/**
 * A connection of the driver's pool. The driver's constructor reads the certificate files of the URL, so that
 * each new connection uses the present files. If a file is missing, the constructor throws, which the pool
 * does not handle: the waiting request would never end. This class reports the error from `connect` instead.
 */
export class PostgresClient extends pg.Client {
  readonly #problem: Error | undefined

  constructor(config: pg.ClientConfig = {}) {
    const problem = findConfigProblem(config)
    super(problem === undefined ? config : {})
    this.#problem = problem
  }

  override connect(): Promise<pg.Client>
  override connect(connected: Connected): void
  override connect(connected?: Connected): Promise<pg.Client> | undefined {
    const problem = this.#problem
    if (connected === undefined) return problem ? Promise.reject(problem) : super.connect()
    if (problem) process.nextTick(connected, problem)
    else super.connect(connected)
    return undefined
  }
}

function findConfigProblem(config: pg.ClientConfig): Error | undefined {
  try {
    new pg.Client(config)
    return undefined
  } catch (error) {
    return error as Error
  }
}
