/** A call that adds hits to a counter, as its caller saw it. */
export interface Operation {
  readonly startMs: number
  /** Left out if the call had no answer: it may have had its effect at any time since, or never. */
  readonly endMs?: number
  readonly hits: number
  readonly outcome: Outcome
}

export type Outcome =
  /** With the value of the counter after the hits, which is at most the limit. */
  | { readonly kind: 'admitted'; readonly after: number }
  | { readonly kind: 'over' }
  | { readonly kind: 'unknown' }

/**
 * Returns whether there is an order of the operations in which each has its effect between its start and its end, and
 * the outcome that its caller saw (Herlihy and Wing 1990). A counter adds the hits of each call, also of one that is
 * over the limit, and never falls.
 *
 * So all that were admitted come before all that were over, in the order of their values, and unknown operations fill
 * the gaps between the values. Each operation may be placed as late as those after it allow.
 */
export function isLinearizable(limit: number, operations: readonly Operation[]): boolean {
  const over = operations.filter(({ outcome }) => outcome.kind === 'over')
  const unknown = operations.filter(({ outcome }) => outcome.kind === 'unknown')
  const firstEndMs = Math.min(...over.map(endOf))
  const admitted = operations
    .flatMap(({ outcome, ...other }) =>
      outcome.kind === 'admitted' ? [{ ...other, after: outcome.after }] : [],
    )
    .sort((one, other) => one.after - other.after)
  const gaps: { readonly size: number; readonly untilMs: number }[] = []
  let untilMs = firstEndMs
  for (let index = admitted.length - 1; index >= 0; index--) {
    const operation = admitted[index] as (typeof admitted)[number]
    untilMs = Math.min(untilMs, endOf(operation))
    const size = operation.after - operation.hits - (admitted[index - 1]?.after ?? 0)
    if (operation.startMs > untilMs || operation.after > limit || size < 0) return false
    gaps.unshift({ size, untilMs })
  }
  if (!canFill(gaps, unknown)) return false
  if (over.length === 0) return true
  // The first one that is over may come after all that has begun until then.
  const sum = (some: readonly Operation[]) => some.reduce((total, { hits }) => total + hits, 0)
  const before = [
    ...admitted.map(({ hits }) => hits),
    sum(unknown.filter(({ startMs }) => startMs <= firstEndMs)),
  ]
  const largest = Math.max(...over.filter(({ startMs }) => startMs <= firstEndMs).map(({ hits }) => hits))
  return before.reduce((total, hits) => total + hits) + largest > limit
}

export interface LeasedCounter {
  readonly limit: number
  /** The hits that processes may have taken without using them, or have lost with their leases. */
  readonly held: number
  /** The hits that a call without an answer may have lost beside its own. */
  readonly lost: number
}

/**
 * Returns whether there is such an order for a counter with leases, whose specification is:
 *
 * - a call is admitted only if its hits and those of all admitted calls before it are within the limit;
 * - a call is over the limit only if its hits and those before it exceed the limit without `held`, and then counts
 *   nothing;
 * - a call without an answer counts any number of hits within the limit, at most its own and `lost`.
 *
 * The value after an admitted call is an estimate. Without `held` and `lost`, this is a counter that counts no
 * rejected hits.
 *
 * Admitted calls may have any order, so each may come when it starts. Each that is over comes when it ends. Calls
 * without an answer count as early and as much as they can.
 */
export function isLinearizableLeased(
  { limit, held, lost }: LeasedCounter,
  operations: readonly Operation[],
): boolean {
  const sum = (some: readonly { readonly hits: number }[]) =>
    some.reduce((total, { hits }) => total + hits, 0)
  const admitted = operations.filter(({ outcome }) => outcome.kind === 'admitted')
  const unknown = operations.filter(({ outcome }) => outcome.kind === 'unknown')
  const room = limit - sum(admitted)
  if (room < 0) return false
  return operations.every(operation => {
    if (operation.outcome.kind !== 'over') return true
    const isBefore = ({ startMs }: Operation) => startMs <= endOf(operation)
    const unknownBefore = unknown.filter(isBefore)
    const counted = Math.min(room, sum(unknownBefore) + lost * unknownBefore.length)
    return sum(admitted.filter(isBefore)) + counted + operation.hits > limit - held
  })
}

const endOf = ({ endMs = Number.POSITIVE_INFINITY }: Pick<Operation, 'endMs'>) => endMs

/** Returns whether the operations can have all sizes as their sums. Of the same hits, the earliest comes first. */
function canFill(
  gaps: readonly { readonly size: number; readonly untilMs: number }[],
  unknown: readonly Operation[],
): boolean {
  const queues = [...Map.groupBy(unknown, ({ hits }) => hits).values()].map(same =>
    same.toSorted((one, other) => one.startMs - other.startMs),
  )
  const tried = new Set<string>()
  const fill = (at: number, left: number, used: readonly number[]): boolean => {
    const gap = gaps[at]
    if (gap === undefined) return true
    if (left === 0) return fill(at + 1, gaps[at + 1]?.size ?? 0, used)
    const name = `${at} ${left} ${used.join()}`
    if (tried.has(name)) return false
    tried.add(name)
    return queues.some((queue, index) => {
      const operation = queue[used[index] ?? 0]
      if (operation === undefined || operation.hits > left || operation.startMs > gap.untilMs) return false
      return fill(at, left - operation.hits, used.with(index, (used[index] ?? 0) + 1))
    })
  }
  return fill(
    0,
    gaps[0]?.size ?? 0,
    queues.map(() => 0),
  )
}
