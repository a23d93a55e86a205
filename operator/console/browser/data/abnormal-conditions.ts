import type { ResourceList } from '../../../api/shapes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

interface AbnormalCondition extends Condition {
  readonly severity: 'error' | 'warning'
}

/** The conditions that are abnormal when they are true. They do not change Ready. */
const severities: Readonly<Record<string, AbnormalCondition['severity']>> = {
  Degraded: 'error',
  Doubtful: 'warning',
}

/** Returns the abnormal conditions. A resource with one can be ready. */
export const abnormalConditions = (conditions: readonly Condition[]): readonly AbnormalCondition[] =>
  conditions.flatMap(condition => {
    const severity = severities[condition.type]
    return severity === undefined || condition.status !== 'True' ? [] : [{ ...condition, severity }]
  })
