import { ExpectedError } from '@tollway/chassis/expected-error.ts'

export type QueryErrorCode =
  /** No rate limit process has a session with an operator. */
  | 'no-pods'
  | 'unknown-domain'
  /** No rule matches the entries, or the watched rule does not exist. */
  | 'no-rule'
  /** The rule is unlimited, so it has no counter. */
  | 'unlimited'
  /** The backend of the counters failed. A change may have been made nevertheless. */
  | 'backend-failed'
  /** No pod answered by the deadline. A change may have been made nevertheless. */
  | 'deadline'
  /** A setting of the pods switches the function off. */
  | 'switched-off'
  /** The counters do not support the change, or the pods do not support the replay. */
  | 'not-supported'
  /** An argument is invalid, such as the proposed configuration. */
  | 'invalid'
  /** More subscriptions or replays run than allowed. */
  | 'too-many'

/** The error of a query to rate limit processes or brokers. Operators pass it on to each other. */
export class QueryError extends ExpectedError {
  override readonly name = 'QueryError'
  readonly code: QueryErrorCode
  /** The argument at fault, such as `by`; empty for the call as a whole. */
  readonly field: string

  constructor(code: QueryErrorCode, message: string, field = '') {
    super(message)
    this.code = code
    this.field = field
  }
}

/** Returns whether a change that failed with this error may have been made nevertheless. */
export function mayHaveChanged(error: unknown): boolean {
  return !(error instanceof QueryError) || error.code === 'deadline' || error.code === 'backend-failed'
}
