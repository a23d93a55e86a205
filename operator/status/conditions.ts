/** A condition of a resource's status, with the fields of a Kubernetes `metav1.Condition`. */
export interface StatusCondition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  /** A CamelCase word for programs. */
  readonly reason: string
  /** A text for people, which says what to do about a problem. */
  readonly message: string
  readonly observedGeneration: number
  /** The time at which `status` last changed, in RFC 3339. */
  readonly lastTransitionTime: string
}

export type NewCondition = Omit<StatusCondition, 'lastTransitionTime' | 'observedGeneration'>

/** Completes the new conditions. A condition whose `status` is unchanged keeps its `lastTransitionTime`. */
export function withTransitionTimes(
  old: readonly StatusCondition[],
  fresh: readonly NewCondition[],
  observedGeneration: number,
  nowMs: number,
): readonly StatusCondition[] {
  return fresh.map(condition => {
    const before = old.find(({ type }) => type === condition.type)
    const lastTransitionTime =
      before?.status === condition.status ? before.lastTransitionTime : new Date(nowMs).toISOString()
    return { ...condition, observedGeneration, lastTransitionTime }
  })
}
