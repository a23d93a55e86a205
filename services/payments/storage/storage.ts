import type { Rejected, Result } from '../domain/rejections.ts'

/**
 * The storage of payments: a relational database behind one interface. All writes run inside `transaction`,
 * so related changes are stored together or not at all.
 */
export interface Storage {
  /**
   * Runs `work` in one transaction and commits when it resolves. When it rejects, the transaction is rolled
   * back and the error is rethrown unchanged.
   *
   * `work` runs again, in a new transaction, when the database requires it (serialisation failures,
   * deadlocks, lock timeouts) and when the connection is lost before the commit. It must therefore have no
   * effect but through `tx`. It must not open another transaction: with one connection it would wait for
   * itself.
   *
   * @throws StorageError with a code for the caller's decision.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>
  /**
   * Runs `work`, which only reads, without a transaction: each statement sees the data committed when it
   * began, as under read committed, and no call waits for a needless BEGIN and COMMIT. `work` runs again, on
   * another connection, when the connection is lost.
   *
   * @throws StorageError as `transaction`; Error for a statement that could write or lock
   */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Waits for running transactions, then closes the connections. No transaction may begin afterwards. */
  close(): Promise<void>
}

/** Carries a rejection out of a transaction, so that the transaction is rolled back. */
class RollbackWithRejection extends Error {
  readonly rejected: Rejected

  constructor(rejected: Rejected) {
    super('the work was rejected')
    this.rejected = rejected
  }
}

/** Runs `work` in one transaction, which is rolled back if the work rejects. */
export async function transact<T>(
  storage: Pick<Storage, 'transaction'>,
  work: (tx: Tx) => Promise<Result<T>>,
): Promise<Result<T>> {
  try {
    return await storage.transaction(async tx => {
      const result = await work(tx)
      if (!result.ok) throw new RollbackWithRejection(result)
      return result
    })
  } catch (error) {
    if (error instanceof RollbackWithRejection) return error.rejected
    throw error
  }
}

/**
 * One transaction. Rows have the column names as written in the statement; `bigint` columns are bigint,
 * `timestamptz` are Date, `json` is parsed, `bytea` is Uint8Array. Statements run one after another, in the
 * order of the calls. Independent statements are best started together before any is awaited (`Promise.all`):
 * they are then sent together. After the first failure, the others fail with its error.
 */
export interface Tx {
  /** Runs one statement with `$1`-style parameters. @throws StorageError */
  query<Row>(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>
  /**
   * Sends a statement without a result, and does not wait for it. If it fails, the whole transaction is
   * rolled back. The commit follows the last statement without a wait either.
   */
  send(sql: string, params?: readonly SqlValue[]): void
  /** Runs several statements without parameters, for migrations. @throws StorageError */
  script(sql: string): Promise<void>
}

/** JSON is passed as text. */
export type SqlValue = string | number | bigint | boolean | Date | Uint8Array | readonly string[] | null

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactionOptions {
  /** Default: read committed. The caller then locks the rows that a decision depends on. */
  readonly isolation?: Isolation
  /** The longest time of one statement of this transaction. It replaces the storage's default. */
  readonly statementTimeoutMs?: number
}

/**
 * - `unavailable`: no connection can be had; nothing was done, and the caller can retry later.
 * - `contention`: conflicts with other transactions persisted until the limit of tries; nothing was done.
 * - `timeout`: a statement took too long; nothing was done.
 * - `commit-unknown`: the connection was lost while the commit ran; the work is whole or absent, and only
 *   a read of the data shows which.
 * - `constraint`: a constraint rejected the data; `constraint` is its name. Nothing was done.
 * - `refused`: the database rejected a statement for another reason, for example a text with a zero byte.
 */
type StorageErrorCode = 'unavailable' | 'contention' | 'timeout' | 'commit-unknown' | 'constraint' | 'refused'

export class StorageError extends Error {
  override readonly name = 'StorageError'
  readonly code: StorageErrorCode
  /** The name of the constraint, or of the trigger's rule, of a `constraint` error. */
  readonly constraint: string | undefined
  /** The five characters of PostgreSQL's Appendix A, if the database reported the error. */
  readonly sqlState: string | undefined

  constructor(code: StorageErrorCode, message: string, details: StorageErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.code = code
    this.constraint = details.constraint
    this.sqlState = details.sqlState
  }
}

interface StorageErrorDetails {
  readonly constraint?: string | undefined
  readonly sqlState?: string | undefined
  readonly cause?: unknown
}

/** Returns whether the error is a violation of the constraint of that name. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof StorageError && error.code === 'constraint' && error.constraint === constraint
}

/**
 * Returns the only row of a result. @throws Error for more or fewer rows, which is a defect of the program
 */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined || rows.length > 1) throw new Error(`expected one row, got ${rows.length}`)
  return row
}

export function toDate(ms: number): Date {
  return new Date(ms)
}

/**
 * Returns the expression of the position of a list's element, for walking the list part by part. The
 * parameter is the element's id; null is the position before the first one. It is one value for the
 * statement, so that the index of the list is read from there.
 */
export function positionAfter(table: string, parameter: string): string {
  return `coalesce((SELECT position FROM ${table} WHERE id = ${parameter}::uuid), -1)`
}

/** The lowest id. */
export const firstId = '00000000-0000-0000-0000-000000000000'

/**
 * Ends a subquery of EXISTS, which PostgreSQL then executes for each row through an index, instead of a
 * join: without statistics, as after a restore, the join would read the whole table for each row. A
 * preceding ORDER BY selects the index.
 */
export const byIndex = 'OFFSET 0'
