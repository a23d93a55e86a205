import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import {
  type Isolation,
  type SqlValue,
  type Storage,
  StorageError,
  type TransactionOptions,
  type Tx,
} from '../storage.ts'
import { classifyDatabaseError, type DatabaseFailure } from './database-error.ts'

/** One connection of a driver, for one transaction or reading. Rejects with the driver's own errors. */
export interface DatabaseSession {
  query(sql: string, params: readonly SqlValue[]): Promise<readonly unknown[]>
  script(sql: string): Promise<void>
  /**
   * Whether a statement can fail in the driver, unknown to the database. The commit then waits for all
   * statements.
   */
  readonly commitWaits: boolean
  /** @param broken the connection must not be used again */
  release(broken: boolean): void
}

interface TransactionRunnerOptions {
  /** @throws StorageError `unavailable` when no connection can be had in time. */
  readonly openSession: (options: TransactionOptions) => Promise<DatabaseSession>
  readonly clock: Clock
  /** Uniform in [0, 1); spreads the waits between tries. */
  readonly random: () => number
  readonly limits: RetryLimits
}

export interface RetryLimits {
  /** The maximum number of attempts. */
  readonly maxTries: number
  /** The time after which there is no further attempt. */
  readonly retryDeadlineMs: number
  readonly initialWaitMs: number
  readonly maxWaitMs: number
}

export const defaultRetryLimits: RetryLimits = {
  maxTries: 10,
  retryDeadlineMs: 10_000,
  initialWaitMs: 2,
  maxWaitMs: 250,
}

/**
 * Creates the transaction runner of every database. It retries, waits between attempts, and detects a lost
 * commit.
 */
export function createTransactionRunner(
  options: TransactionRunnerOptions,
): Pick<Storage, 'transaction' | 'read'> {
  const { clock, random, limits } = options
  /** Detects nested transactions: with a single connection, the inner one would wait for ever. */
  const insideTransaction = new AsyncLocalStorage<true>()

  async function run<T>(
    tryOnce: (session: DatabaseSession) => Promise<Outcome<T>>,
    transactionOptions: TransactionOptions,
  ): Promise<T> {
    if (insideTransaction.getStore()) throw new Error('a transaction cannot begin inside another one')
    const giveUpMs = clock.monotonicMs() + limits.retryDeadlineMs
    const backoff = createBackoff({
      initialMs: limits.initialWaitMs,
      maxMs: limits.maxWaitMs,
      factor: 2,
      jitter: 1,
      random,
    })
    for (let tries = 1; ; tries += 1) {
      const session = await options.openSession(transactionOptions)
      const outcome = await insideTransaction.run(true, () => tryOnce(session))
      if (outcome.kind === 'done') return outcome.value
      if (outcome.kind === 'thrown') throw outcome.error
      if (tries >= limits.maxTries || clock.monotonicMs() >= giveUpMs) throw outcome.error
      await pause(backoff.nextMs())
    }
  }

  return {
    transaction: (work, transactionOptions = {}) =>
      run(session => transactOnce(session, work, transactionOptions), transactionOptions),
    read: work => run(session => readOnce(session, work), {}),
  }
}

type Outcome<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'thrown'; readonly error: unknown }
  | { readonly kind: 'again'; readonly error: StorageError }

/** Always releases the session. */
async function transactOnce<T>(
  session: DatabaseSession,
  work: (tx: Tx) => Promise<T>,
  options: TransactionOptions,
): Promise<Outcome<T>> {
  const begun = begin(session, options.isolation ?? 'read committed')
  // A transaction with its own timeout sets it first.
  const opened = createTx(session, { begun, holdsAll: options.statementTimeoutMs !== undefined })
  const { tx, failed, settled, end } = opened
  let value: T
  try {
    value = await work(tx)
    await begun
  } catch (error) {
    end()
    // Statements that wait for BEGIN must go out before the rollback does.
    await begun.catch(() => {})
    const own = failed() ?? (error instanceof BeginFailure ? error.failure : undefined)
    return own === undefined ? rollBack(session, error) : endFailed(session, own, error)
  }
  end()
  if (session.commitWaits) await settled()
  const swallowed = failed()
  // The database answers a commit of a failed transaction with a rollback and no error.
  if (swallowed !== undefined) return endFailed(session, swallowed, swallowed.error)
  return commit(session, opened, value)
}

/** Runs each statement in a separate transaction. Always releases the session. */
async function readOnce<T>(session: DatabaseSession, work: (tx: Tx) => Promise<T>): Promise<Outcome<T>> {
  const { tx, failed, settled, end } = createTx(readingOnly(session), { begun: undefined, holdsAll: false })
  let outcome: Outcome<T>
  try {
    outcome = { kind: 'done', value: await work(tx) }
  } catch (error) {
    outcome = { kind: 'thrown', error }
  }
  end()
  // Other statements may have been sent with the failed one.
  await settled()
  const failure = failed()
  const broken = failure !== undefined && isBroken(failure)
  session.release(broken)
  if (failure === undefined) return outcome
  if (broken || failure.consequence === 'retry') return { kind: 'again', error: failure.error }
  return outcome.kind === 'thrown' ? outcome : { kind: 'thrown', error: failure.error }
}

/** Whether the connection is unusable. */
function isBroken({ consequence }: DatabaseFailure): boolean {
  return consequence === 'lost' || consequence === 'reconnect'
}

function readingOnly(session: DatabaseSession): DatabaseSession {
  return {
    ...session,
    query(sql, params) {
      assertReads(sql)
      return session.query(sql, params)
    },
    script(sql) {
      throw new Error(`a read allows no script: ${sql.slice(0, maxQuotedCharacters)}`)
    },
  }
}

const maxQuotedCharacters = 60
const reads = /^\s*(?:SELECT|WITH)\b/
/**
 * Statements that change rows, and `FOR UPDATE` and `FOR SHARE`, whose locks would end with the statement.
 */
const writesOrLocks = /\b(?:INSERT|UPDATE|DELETE|MERGE|SHARE)\b/i
/** Statements are constants of the program, so each is examined once. */
const known = new Map<string, boolean>()

function isReading(sql: string): boolean {
  const before = known.get(sql)
  if (before !== undefined) return before
  const found = reads.test(sql) && !writesOrLocks.test(sql)
  known.set(sql, found)
  return found
}

function assertReads(sql: string): void {
  if (isReading(sql)) return
  throw new Error(`a read allows no statement that writes or locks: ${sql.slice(0, maxQuotedCharacters)}`)
}

/** Carries the failure of BEGIN to the code that handles it. */
class BeginFailure extends Error {
  readonly failure: DatabaseFailure

  constructor(failure: DatabaseFailure) {
    super('BEGIN failed')
    this.failure = failure
  }
}

/** @throws BeginFailure */
async function begin(session: DatabaseSession, isolation: Isolation): Promise<void> {
  try {
    await session.query(`BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`, [])
  } catch (error) {
    throw new BeginFailure(classifyDatabaseError(error))
  }
}

interface Opening {
  /** The result of BEGIN; undefined without a transaction. */
  readonly begun: Promise<void> | undefined
  /** No statement is sent before BEGIN is answered. */
  readonly holdsAll: boolean
}

type OpenTx = ReturnType<typeof createTx>

/** Creates the `Tx` of the work. Remembers the first failure, after which nothing can be committed. */
function createTx(session: DatabaseSession, { begun, holdsAll }: Opening) {
  let failure: DatabaseFailure | undefined
  let ended = false
  let last: Promise<unknown> = Promise.resolve()
  let isBegun = begun === undefined
  let holds = holdsAll
  begun?.then(
    () => {
      isBegun = true
    },
    () => {},
  )

  /**
   * Sends the statement together with BEGIN if all before it only read. If BEGIN failed and the connection
   * stayed, any other statement would be stored outside of a transaction.
   */
  async function afterBegin<T>(reads: boolean, statement: () => Promise<T>): Promise<T> {
    holds ||= !reads
    if (holds && !isBegun) await begun
    const result = await statement()
    await begun
    return result
  }

  async function guarded<T>(reads: boolean, statement: () => Promise<T>): Promise<T> {
    if (ended) throw new Error('the transaction has ended')
    if (failure !== undefined) throw failure.error
    const running = isBegun ? statement() : afterBegin(reads, statement)
    last = running
    try {
      return await running
    } catch (error) {
      failure ??= error instanceof BeginFailure ? error.failure : classifyDatabaseError(error)
      throw failure.error
    }
  }

  const query = (sql: string, params: readonly SqlValue[]) =>
    guarded(isReading(sql), () => session.query(sql, params))
  const tx: Tx = {
    query: async <Row>(sql: string, params: readonly SqlValue[] = []) =>
      (await query(sql, params)) as readonly Row[],
    send(sql, params = []) {
      // The driver may fail to serialise an invalid date, and the commit behind it would succeed.
      if (params.some(value => value instanceof Date && Number.isNaN(value.getTime()))) {
        throw new RangeError(`invalid date in the parameters of ${sql.slice(0, maxQuotedCharacters)}`)
      }
      query(sql, params).catch(() => {})
    },
    script: sql => guarded(false, () => session.script(sql)),
  }
  const end = () => {
    ended = true
  }
  // Statements run in order, so the last one ends last.
  const settled = () => last.catch(() => {})
  return { tx, end, settled, failed: () => failure }
}

/**
 * @param thrown the error of `work`. It may translate the failure, and is rethrown unless the transaction
 *   is retried.
 */
async function endFailed(
  session: DatabaseSession,
  failure: DatabaseFailure,
  thrown: unknown,
): Promise<Outcome<never>> {
  if (isBroken(failure)) {
    session.release(true)
    return { kind: 'again', error: failure.error }
  }
  const error = thrown instanceof BeginFailure ? failure.error : thrown
  const outcome = await rollBack(session, error)
  return failure.consequence === 'retry' ? { kind: 'again', error: failure.error } : outcome
}

async function rollBack(session: DatabaseSession, error: unknown): Promise<Outcome<never>> {
  let broken = false
  try {
    await session.query('ROLLBACK', [])
  } catch {
    // The server rolls back by itself when the connection ends.
    broken = true
  }
  session.release(broken)
  return { kind: 'thrown', error }
}

/** Sends COMMIT without waiting for earlier statements: if one fails, the database rolls back. */
async function commit<T>(
  session: DatabaseSession,
  { settled, failed }: OpenTx,
  value: T,
): Promise<Outcome<T>> {
  let lost: unknown
  try {
    await session.query('COMMIT', [])
  } catch (cause) {
    lost = cause
  }
  await settled()
  const earlier = failed()
  if (earlier !== undefined && earlier.consequence !== 'lost') {
    // The database has rejected a statement, and therefore rolls back, also if its answer to the commit is
    // lost.
    session.release(isBroken(earlier) || lost !== undefined)
    return { kind: earlier.consequence === 'fail' ? 'thrown' : 'again', error: earlier.error }
  }
  if (lost !== undefined) return failCommit(session, lost)
  session.release(false)
  return { kind: 'done', value }
}

function failCommit(session: DatabaseSession, cause: unknown): Outcome<never> {
  const failure = classifyDatabaseError(cause)
  const { consequence, error } = failure
  const broken = isBroken(failure)
  session.release(broken)
  if (consequence === 'retry') return { kind: 'again', error }
  if (!broken) return { kind: 'thrown', error }
  const message = `the connection was lost during the commit: ${error.message}`
  return { kind: 'thrown', error: new StorageError('commit-unknown', message, { cause }) }
}
