import { StorageError } from '../storage.ts'

/**
 * What a failed statement means for its transaction:
 * - `retry`: the transaction may run again on the same connection;
 * - `reconnect`: the transaction may run again on another connection; this one is unusable;
 * - `fail`: the caller gets the error, and the connection stays open;
 * - `lost`: as `reconnect`; after a failed COMMIT, it is unknown whether the database committed.
 */
type Consequence = 'retry' | 'reconnect' | 'lost' | 'fail'

export interface DatabaseFailure {
  readonly consequence: Consequence
  readonly error: StorageError
}

/** The fields that pg and PGlite add to an error that the database reports. */
interface ServerError {
  readonly code?: unknown
  readonly message?: unknown
  readonly constraint?: unknown
  readonly severity?: unknown
}

const sqlStatePattern = /^[0-9A-Z]{5}$/

/** The codes of a serialisation failure, a deadlock, and a lock that was not available in time. */
const retried = new Set(['40001', '40P01', '55P03'])
/**
 * The code of a write on a read-only server, such as a new standby. The next connection may reach the
 * primary.
 */
const readOnlyServer = '25006'
const queryCanceled = '57014'

/**
 * Classifies an error of a driver by its PostgreSQL error code (Appendix A of the PostgreSQL manual). An
 * error without such a code counts as a failed connection.
 */
export function classifyDatabaseError(cause: unknown): DatabaseFailure {
  const { code, message, constraint, severity } = (cause ?? {}) as ServerError
  const text = typeof message === 'string' ? message : String(cause)
  if (typeof code !== 'string' || !sqlStatePattern.test(code) || isSystemCode(cause)) {
    return failure('lost', 'unavailable', `the connection to the database failed: ${text}`, { cause })
  }
  const details = { sqlState: code, cause }
  if (retried.has(code)) return failure('retry', 'contention', text, details)
  if (code === readOnlyServer) return failure('reconnect', 'unavailable', text, details)
  if (code === queryCanceled) return failure('fail', 'timeout', text, details)
  if (severity === 'FATAL' || severity === 'PANIC' || /^(08|57P)/.test(code)) {
    return failure('lost', 'unavailable', text, details)
  }
  if (code.startsWith('53')) return failure('reconnect', 'unavailable', text, details)
  if (code.startsWith('23')) {
    const name = typeof constraint === 'string' ? constraint : undefined
    return failure('fail', 'constraint', text, { ...details, constraint: name })
  }
  return failure('fail', 'refused', text, details)
}

/**
 * Returns whether the code is the operating system's: a code such as `EPIPE` can look like one of PostgreSQL,
 * but the error has `errno`.
 */
function isSystemCode(cause: unknown): boolean {
  return typeof (cause as { errno?: unknown }).errno === 'number'
}

function failure(
  consequence: Consequence,
  code: StorageError['code'],
  message: string,
  details: { sqlState?: string; constraint?: string | undefined; cause: unknown },
): DatabaseFailure {
  return { consequence, error: new StorageError(code, message, details) }
}
