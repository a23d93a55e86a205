/**
 * The storage of payments: a relational database behind one contract. Reads and writes happen inside
 * `transaction`, which stores all of them or none.
 */
export interface Storage {
  /**
   * Runs `work` in one transaction and commits when it answers; when it throws, nothing of it stays and its
   * error comes out as it is.
   *
   * `work` runs again, in a new transaction, when the database asks for it (serialisation failures,
   * deadlocks, lock timeouts) and when the connection is lost before the commit. It must therefore have no
   * effect but through `tx`, and must not open a transaction of its own: with one connection it would wait
   * for itself.
   *
   * @throws StorageError with the code that says what the caller may do.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>
  /**
   * Runs `work`, which only reads, without a transaction: each statement sees what was committed when it
   * began, as in a transaction that is read committed, and no BEGIN and COMMIT cost a round trip. `work` runs
   * again, on another connection, when the connection is lost.
   *
   * @throws StorageError as `transaction`; Error for a statement that could write or lock
   */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Waits for what runs, then lets go of the connections. Nothing may be begun after it. */
  close(): Promise<void>
}

/**
 * One transaction. Rows have the column names as written in the statement; `bigint` columns are bigint,
 * `timestamptz` are Date, `json` is parsed, `bytea` is Uint8Array. Statements run one after another, in the
 * order in which they were given. Who has several that need no answer of each other gives all of them before
 * awaiting any (`Promise.all`): they then go out together. After the first that fails the others fail with
 * its error.
 */
export interface Tx {
  /** One statement with `$1`-style parameters. @throws StorageError */
  query<Row>(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>
  /**
   * Sends a statement without a result, and does not wait for it. If it fails, the whole transaction is
   * rolled back. The commit follows the last statement without a wait either.
   */
  send(sql: string, params?: readonly SqlValue[]): void
  /** Several statements without parameters, for migrations. @throws StorageError */
  script(sql: string): Promise<void>
}

/** JSON is given as its text. */
export type SqlValue = string | number | bigint | boolean | Date | Uint8Array | readonly string[] | null

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactionOptions {
  /** Read committed when left out; rows that a decision rests on are then locked by who reads them. */
  readonly isolation?: Isolation
  /** The longest that one statement of this transaction may take, in place of the storage's own. */
  readonly statementTimeoutMs?: number
}

/**
 * - `unavailable`: there is no connection; nothing was done, and a later attempt may succeed.
 * - `contention`: the database refused the work up to the limit of attempts, because of concurrent work;
 *   nothing was done.
 * - `timeout`: a statement took too long; nothing was done.
 * - `commit-unknown`: the connection was lost during the commit; the work is stored whole or not at all, and
 *   only a read of the data shows which.
 * - `constraint`: a constraint refused the data; `constraint` is its name. Nothing was done.
 * - `refused`: the database refused a statement otherwise, for example a text with a zero byte.
 */
export type StorageErrorCode =
  | 'unavailable'
  | 'contention'
  | 'timeout'
  | 'commit-unknown'
  | 'constraint'
  | 'refused'

export class StorageError extends Error {
  override readonly name = 'StorageError'
  readonly code: StorageErrorCode
  /** The name of the constraint, or of the trigger's rule, of a `constraint` error. */
  readonly constraint: string | undefined
  /** The five characters of PostgreSQL's Appendix A, where the database spoke. */
  readonly sqlState: string | undefined

  constructor(code: StorageErrorCode, message: string, details: StorageErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.code = code
    this.constraint = details.constraint
    this.sqlState = details.sqlState
  }
}

export interface StorageErrorDetails {
  readonly constraint?: string | undefined
  readonly sqlState?: string | undefined
  readonly cause?: unknown
}

/** Whether the error is the refusal by the constraint of that name. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof StorageError && error.code === 'constraint' && error.constraint === constraint
}

/** The only row of an answer. @throws Error when there are more or fewer, which is an error of the program */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined || rows.length > 1) throw new Error(`one row was expected, and ${rows.length} came`)
  return row
}
