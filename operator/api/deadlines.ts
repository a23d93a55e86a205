/**
 * How long a call of the API may take, in milliseconds, by the kind of the call. Each is longer than the time
 * limits inside the operator, so that the caller gets an error with a cause from the operator.
 */
export const deadlines = {
  /** An operator waits up to 10 s for the operator with the Lease. */
  read: 20_000,
  /** Pods may take several seconds to confirm a change, and the API server 30 s to apply a resource. */
  change: 60_000,
  /** Pods may replay for 120 s. The rest is for receiving and validating a body of 10 MB. */
  whatIf: 150_000,
} as const
