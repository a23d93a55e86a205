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
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The most connections. */
  readonly maxConnections?: number
  /** The most transactions that wait for a connection. Further ones are rejected at once. */
  readonly maxWaiting?: number
  /** The longest wait for a free or a new connection. */
  readonly connectTimeoutMs?: number
  /** The longest time of one statement. The server enforces it; this side does when the server is silent. */
  readonly statementTimeoutMs?: number
  /** The longest wait for one lock. The transaction is then retried. */
  readonly lockTimeoutMs?: number
  readonly retries?: RetryLimits
  /** Called when an idle connection breaks. The text contains no secret. */
  readonly onIdleError?: (message: string) => void
}

const defaults = {
  maxConnections: 16,
  maxWaiting: 1_000,
  connectTimeoutMs: 3_000,
  statementTimeoutMs: 5_000,
  lockTimeoutMs: 2_000,
}

/** The server's timeout expires first, so that only a silent server causes a closed connection. */
const graceMs = 500
/** A transaction must not keep its locks after its process has stopped. */
const idleInTransactionTimeoutMs = 30_000
const idleTimeoutMs = 60_000
/** Connections are renewed, so that they spread over the servers behind an address that has moved. */
const maxLifetimeSeconds = 1_800
/** The maximum number of prepared statements of a connection. The texts are constants of the program. */
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
    // A statement is sent without waiting for the answers to earlier statements.
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

/** Removes options whose value is undefined, so that defaults apply. */
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
  // A connection that breaks between two statements emits an error here; its next statement fails anyway.
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
    // The driver writes all values that `send` accepts.
    commitWaits: false,
    async script(sql) {
      await silence.during(runQuery(client, { text: sql }))
    },
    release(broken) {
      silence.end()
      client.off('error', ignore)
      // Without this, the pool waits for a silent peer to end the connection.
      if (broken) rawSocket(client).destroy()
      client.release(broken)
    },
  }
}

/**
 * Runs a query by a callback. With the promises and timers of the driver, V8 keeps the rows of answered
 * statements alive until a full collection: minor collections then take 15 to 30 ms instead of one.
 */
function runQuery(client: pg.PoolClient, config: pg.QueryConfig): Promise<readonly unknown[]> {
  return new Promise((resolve, reject) => {
    client.query(config, (error: Error | null, result: pg.QueryResult) => {
      if (error) reject(error)
      else resolve(result.rows)
    })
  })
}

/**
 * Closes the connection when no waiting statement is answered within `timeoutMs`; the statements then fail.
 */
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
      // Some statements of a broken connection may fail only after this. They must not restart the timer.
      ended = true
      clearTimeout(timer)
    },
  }
}

function rawSocket(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream
}

/** Sends the statements of one turn of the event loop in one write. */
function holdWrites(socket: Socket): void {
  socket.cork()
  process.nextTick(() => socket.uncork())
}

/** Sets the statement timeout after the transaction has begun. It ends with the transaction. */
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

type Connected = (error: Error | null) => void

/**
 * A connection of the driver's pool. The constructor of the driver reads the certificate files of the URL,
 * so each new connection uses the present files. When it throws, as for a missing file, the pool would lose
 * the waiting request, and throw in the callers that return a connection: here `connect` fails instead.
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
