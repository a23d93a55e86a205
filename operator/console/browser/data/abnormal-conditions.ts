import type { ResourceList } from '../../../api/shapes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

interface AbnormalCondition extends Condition {
  readonly severity: 'error' | 'warning'
}

/** The conditions that report a trouble beside Ready, which does not change while they are true. */
const severities: Readonly<Record<string, AbnormalCondition['severity']>> = {
  Degraded: 'error',
  Doubtful: 'warning',
}

/** Returns the conditions that report a trouble, also of a resource that is ready. */
export const abnormalConditions = (conditions: readonly Condition[]): readonly AbnormalCondition[] =>
  conditions.flatMap(condition => {
    const severity = severities[condition.type]
    return severity === undefined || condition.status !== 'True' ? [] : [{ ...condition, severity }]
  })
