import type { Rejected, Result } from '../domain/rejections.ts'

/**
 * The database of the payments service, behind one interface for PostgreSQL and PGlite. All writes run inside
 * `transaction`, so that related changes are stored together or not at all.
 */
export interface Storage {
  /**
   * Runs `work` in one transaction and commits when `work` resolves. If `work` rejects, rolls the transaction
   * back and rethrows the error unchanged.
   *
   * `work` runs again, in a new transaction, after a serialisation failure, a deadlock or a lock timeout, and
   * if the connection is lost before the commit. So `work` must have no effect except through `tx`. It must
   * not open another transaction, which could wait for the same connection for ever.
   *
   * @throws StorageError whose code states what happened and whether to retry
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>
  /**
   * Runs `work`, which may only read, without BEGIN and COMMIT, which saves their round trips. Each statement
   * sees the data that was committed when the statement began. `work` runs again, on another connection, if
   * the connection is lost.
   *
   * @throws StorageError as `transaction` does; Error for a statement that could write or lock
   */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Waits for the running transactions, then closes the connections. Later transactions fail. */
  close(): Promise<void>
}

/** An error with a rejection, which `transact` throws inside a transaction to roll it back. */
class RollbackWithRejection extends Error {
  readonly rejected: Rejected

  constructor(rejected: Rejected) {
    super('the work was rejected')
    this.rejected = rejected
  }
}

/** Rolls back if the result of `work` is a rejection. */
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
 * The statements of one transaction or read. The fields of a row are the columns of the statement: `bigint`
 * is bigint, `timestamptz` is Date, `json` is parsed, and `bytea` is Uint8Array. Statements run one after
 * another, in the order of the calls. Start independent statements together (`Promise.all`), so that they are
 * sent together. After a statement has failed, all later ones fail with the same error.
 */
export interface Tx {
  /** Runs one statement; `$1`, `$2` and so on stand for the parameters. @throws StorageError */
  query<Row>(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>
  /**
   * Sends a statement whose result is not needed, and returns at once. If the statement fails, the commit
   * fails with its error, and the transaction is rolled back.
   */
  send(sql: string, params?: readonly SqlValue[]): void
  /** Runs several statements without parameters, for migrations. @throws StorageError */
  script(sql: string): Promise<void>
}

/** The type of a parameter. JSON is passed as text. */
export type SqlValue = string | number | bigint | boolean | Date | Uint8Array | readonly string[] | null

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactionOptions {
  /** By default `read committed`, under which the caller must lock the rows that a decision depends on. */
  readonly isolation?: Isolation
  /** The maximum time of each statement of this transaction, instead of the storage's default. */
  readonly statementTimeoutMs?: number
}

/**
 * - `unavailable`: there is no connection; nothing was done, and the caller can retry later.
 * - `contention`: every attempt conflicted with other transactions; nothing was done.
 * - `timeout`: a statement took too long; nothing was done.
 * - `commit-unknown`: the connection was lost during the commit. Either all changes are stored or none; only
 *   a read of the data shows which.
 * - `constraint`: a constraint rejected the data; `constraint` is its name. Nothing was done.
 * - `refused`: the database rejected a statement for another reason, for example text with the character
 *   U+0000.
 */
type StorageErrorCode = 'unavailable' | 'contention' | 'timeout' | 'commit-unknown' | 'constraint' | 'refused'

export class StorageError extends Error {
  override readonly name = 'StorageError'
  readonly code: StorageErrorCode
  /** The violated constraint, or the rule that a trigger reports; undefined for other codes. */
  readonly constraint: string | undefined
  /** The error code of PostgreSQL; undefined if the database did not report the error. */
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

export function violates(error: unknown, constraint: string): boolean {
  return error instanceof StorageError && error.code === 'constraint' && error.constraint === constraint
}

/** @throws Error for more or fewer rows, which is a defect of the program */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined || rows.length > 1) throw new Error(`expected one row, got ${rows.length}`)
  return row
}

export function toDate(ms: number): Date {
  return new Date(ms)
}

/**
 * Returns the SQL of an element's position, for reading a list part by part. The parameter is the id of the
 * last element read; null gives the position before the first one. The planner treats the result as one
 * value, so that the index of the list is read from that position on.
 */
export function positionAfter(table: string, parameter: string): string {
  return `coalesce((SELECT position FROM ${table} WHERE id = ${parameter}::uuid), -1)`
}

/** The lowest UUID, which no record has. */
export const firstId = '00000000-0000-0000-0000-000000000000'

/**
 * Ends the subquery of an EXISTS, so that PostgreSQL executes the subquery for each row, through an index,
 * and not as a join. Without statistics, as after a restore, the join would read the whole table for each
 * row. An ORDER BY before it selects the index.
 */
export const byIndex = 'OFFSET 0'
