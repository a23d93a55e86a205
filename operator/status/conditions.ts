/** A condition of a resource's status, in the form that Kubernetes gives it. */
export interface StatusCondition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  /** One CamelCase word for programs. */
  readonly reason: string
  /** The text for people; it says what to do about a problem. */
  readonly message: string
  readonly observedGeneration: number
  /** The time of the last change of `status`, in RFC 3339. */
  readonly lastTransitionTime: string
}

export type NewCondition = Omit<StatusCondition, 'lastTransitionTime' | 'observedGeneration'>

/** Returns the new conditions. An unchanged condition keeps the time of its last change. */
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
