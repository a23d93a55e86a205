/** A condition of a resource's status, in the form that Kubernetes gives it. */
export interface Condition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  /** One CamelCase word for programs. */
  readonly reason: string
  /** For people; says what to do where something is wrong. */
  readonly message: string
  readonly observedGeneration: number
  /** When `status` became what it is, in RFC 3339. */
  readonly lastTransitionTime: string
}

export type NewCondition = Omit<Condition, 'lastTransitionTime' | 'observedGeneration'>

/**
 * The new conditions, each with the time of its last change taken over from the old ones where nothing
 * changed.
 */
export function withTransitionTimes(
  old: readonly Condition[],
  fresh: readonly NewCondition[],
  observedGeneration: number,
  nowMs: number,
): readonly Condition[] {
  return fresh.map(condition => {
    const before = old.find(({ type }) => type === condition.type)
    const lastTransitionTime =
      before?.status === condition.status ? before.lastTransitionTime : new Date(nowMs).toISOString()
    return { ...condition, observedGeneration, lastTransitionTime }
  })
}
