/**
 * How long a call of the API may take, in milliseconds, by the kind of the call. Each is longer than the time
 * limit of the operator itself, so that a caller gets the operator's error with its cause.
 */
export const deadlines = {
  /** The operator with the Lease has 10 s for its answer to another one. */
  read: 20_000,
  /** Pods have several seconds to confirm a change, and the API server 30 s to apply a resource. */
  change: 60_000,
  /** The pods have 120 s for a replay. The rest is for a body of 10 MB, and for its validation. */
  whatIf: 150_000,
} as const
