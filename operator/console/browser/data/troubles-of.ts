import type { ResourceList } from '../../../api/shapes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

export interface Trouble extends Condition {
  readonly severity: 'error' | 'warning'
}

/** The conditions that report a trouble beside Ready, which does not change while they are true. */
const troubles: Readonly<Record<string, Trouble['severity']>> = { Degraded: 'error', Doubtful: 'warning' }

/** Returns the conditions that report a trouble, also of a resource that is ready. */
export const troublesOf = (conditions: readonly Condition[]): readonly Trouble[] =>
  conditions.flatMap(condition => {
    const severity = troubles[condition.type]
    return severity === undefined || condition.status !== 'True' ? [] : [{ ...condition, severity }]
  })
