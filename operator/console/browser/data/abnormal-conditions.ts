import type { ResourceList } from '../../../api/shapes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

interface AbnormalCondition extends Condition {
  readonly severity: 'error' | 'warning'
}

/**
 * The severity of each type of condition that is abnormal when it is true. A resource with one can be ready.
 */
const severities: Readonly<Record<string, AbnormalCondition['severity']>> = {
  Degraded: 'error',
  Doubtful: 'warning',
}

export const abnormalConditions = (conditions: readonly Condition[]): readonly AbnormalCondition[] =>
  conditions.flatMap(condition => {
    const severity = severities[condition.type]
    return severity === undefined || condition.status !== 'True' ? [] : [{ ...condition, severity }]
  })
