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

/** A connection in use by one transaction or read. The methods reject with the driver's own errors. */
export interface DatabaseSession {
  query(sql: string, params: readonly SqlValue[]): Promise<readonly unknown[]>
  script(sql: string): Promise<void>
  /**
   * Whether a statement can fail in the driver before the database gets it. If so, COMMIT is sent only after
   * all statements have been answered, because the database would commit without the failed one.
   */
  readonly commitWaits: boolean
  /** @param broken whether the connection must not be used again */
  release(broken: boolean): void
}

interface TransactionRunnerOptions {
  /** @throws StorageError `unavailable` if no connection is available in time */
  readonly openSession: (options: TransactionOptions) => Promise<DatabaseSession>
  readonly clock: Clock
  /** Returns a random number in [0, 1), which spreads the waits between attempts. */
  readonly random: () => number
  readonly limits: RetryLimits
}

export interface RetryLimits {
  /** The maximum number of attempts, including the first. */
  readonly maxTries: number
  /** The time from the first attempt, after which no further attempt begins. */
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

/** Creates functions that retry after failures that permit it, and report a commit of unknown outcome. */
export function createTransactionRunner(
  options: TransactionRunnerOptions,
): Pick<Storage, 'transaction' | 'read'> {
  const { clock, random, limits } = options
  /** Detects a transaction inside another one, which would wait for ever if there is only one connection. */
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

/** Makes one attempt to run `work` in a transaction. Always releases the session. */
async function transactOnce<T>(
  session: DatabaseSession,
  work: (tx: Tx) => Promise<T>,
  options: TransactionOptions,
): Promise<Outcome<T>> {
  const begun = begin(session, options.isolation ?? 'read committed')
  // With a statement timeout of its own, the transaction sets it first, so all statements wait for BEGIN.
  const opened = createTx(session, { begun, holdsAll: options.statementTimeoutMs !== undefined })
  const { tx, failed, settled, end } = opened
  let value: T
  try {
    value = await work(tx)
    await begun
  } catch (error) {
    end()
    // Statements that wait for BEGIN must be sent before ROLLBACK.
    await begun.catch(() => {})
    const own = failed() ?? (error instanceof BeginFailure ? error.failure : undefined)
    return own === undefined ? rollBack(session, error) : endFailed(session, own, error)
  }
  end()
  if (session.commitWaits) await settled()
  const swallowed = failed()
  // `work` may have caught the error of a statement. The database answers COMMIT of such a transaction with a
  // rollback and no error.
  if (swallowed !== undefined) return endFailed(session, swallowed, swallowed.error)
  return commit(session, opened, value)
}

/** Without BEGIN and COMMIT, each statement is a transaction of its own. Always releases the session. */
async function readOnce<T>(session: DatabaseSession, work: (tx: Tx) => Promise<T>): Promise<Outcome<T>> {
  const { tx, failed, settled, end } = createTx(readingOnly(session), { begun: undefined, holdsAll: false })
  let outcome: Outcome<T>
  try {
    outcome = { kind: 'done', value: await work(tx) }
  } catch (error) {
    outcome = { kind: 'thrown', error }
  }
  end()
  // Other statements may still run, because they were sent together with the failed one.
  await settled()
  const failure = failed()
  const broken = failure !== undefined && isBroken(failure)
  session.release(broken)
  if (failure === undefined) return outcome
  if (broken || failure.consequence === 'retry') return { kind: 'again', error: failure.error }
  return outcome.kind === 'thrown' ? outcome : { kind: 'thrown', error: failure.error }
}

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
 * Matches statements that write or lock. They include `FOR UPDATE` and `FOR SHARE`, whose locks would end
 * with the statement.
 */
const writesOrLocks = /\b(?:INSERT|UPDATE|DELETE|MERGE|SHARE)\b/i
/** The program has a limited number of texts, so the map stays small. */
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

/** The error of statements that wait for BEGIN when BEGIN fails. */
class BeginFailure extends Error {
  readonly failure: DatabaseFailure

  constructor(failure: DatabaseFailure) {
    super('BEGIN failed')
    this.failure = failure
  }
}

/** Resolves when BEGIN is answered. @throws BeginFailure */
async function begin(session: DatabaseSession, isolation: Isolation): Promise<void> {
  try {
    await session.query(`BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`, [])
  } catch (error) {
    throw new BeginFailure(classifyDatabaseError(error))
  }
}

interface Opening {
  /** Settles when BEGIN is answered; undefined for a read, which has no transaction. */
  readonly begun: Promise<void> | undefined
  /** If true, no statement is sent before BEGIN is answered. */
  readonly holdsAll: boolean
}

type OpenTx = ReturnType<typeof createTx>

/**
 * Creates the `Tx` of a transaction or read. After the first failure, all statements fail and nothing can be
 * committed.
 */
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
   * Sends a statement together with BEGIN if this statement and all before it only read. A statement that
   * writes waits for BEGIN: if BEGIN failed, the database would execute it outside a transaction.
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
      // An invalid date could fail in the driver, and the database would then commit without this statement.
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
  // Resolves when all statements have ended: they run in order, so the last one ends last.
  const settled = () => last.catch(() => {})
  return { tx, end, settled, failed: () => failure }
}

/**
 * Ends a transaction in which a statement failed, and decides whether it is retried.
 *
 * @param thrown the error of `work`, which may be a translation of the failure. It is rethrown unless the
 *   transaction is retried.
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
    // Nothing else to do: the server rolls back when the connection ends.
    broken = true
  }
  session.release(broken)
  return { kind: 'thrown', error }
}

/** COMMIT does not wait for the answers to earlier statements. If one fails, the database rolls back. */
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
    // The database has rejected a statement, so it rolls back, even if the answer to COMMIT was lost.
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
