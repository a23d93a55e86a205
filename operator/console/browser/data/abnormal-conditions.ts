import type { ResourceList } from '../../../api/shapes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

interface AbnormalCondition extends Condition {
  readonly severity: 'error' | 'warning'
}

/**
 * The types of conditions that are abnormal when they are true, each with the severity. They do not affect
 * the condition Ready.
 */
const severities: Readonly<Record<string, AbnormalCondition['severity']>> = {
  Degraded: 'error',
  Doubtful: 'warning',
}

/** Returns the abnormal conditions among these. A resource can have one and be ready nevertheless. */
export const abnormalConditions = (conditions: readonly Condition[]): readonly AbnormalCondition[] =>
  conditions.flatMap(condition => {
    const severity = severities[condition.type]
    return severity === undefined || condition.status !== 'True' ? [] : [{ ...condition, severity }]
  })
