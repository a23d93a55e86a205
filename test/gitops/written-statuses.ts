import { deriveMerchantConditions, pausedConditions } from '../../operator/kinds/merchant/merchant-status.ts'
import { type NewCondition, withTransitionTimes } from '../../operator/status/conditions.ts'
import { degraded, deriveConditions, type Facts } from '../../operator/status/resource-status.ts'

/** A resource with the status that the operator writes, and the health that GitOps tools must report. */
export interface HealthCase {
  /** The file in testdata, without its ending: `progressing_on_its_way`. It begins with the health. */
  readonly name: string
  readonly resource: Readonly<Record<string, unknown>>
}

const generation = 4
const nowMs = Date.parse('2026-03-01T12:00:00Z')

const right: Facts = {
  ...{ problems: [], denial: undefined, paused: false, inForce: 'present', unpublished: undefined },
  ...{ lacking: undefined, running: 2, enforcing: 2, rejections: [] },
}
const problems = [{ path: 'spec.domain', message: 'is missing' }]
const failure = 'redis.default.svc:6379 refuses connections; 2 of 2 processes answer with errors'

/** The statuses of the kinds that processes enforce. */
const fed: Readonly<Record<string, Partial<Facts>>> = {
  healthy_enforced: {},
  healthy_doubtful: { doubt: { reason: 'OpenOverlap', message: 'avatar- is open to all callers' } },
  progressing_older_version: { enforcing: 1 },
  progressing_no_process: { running: 0, enforcing: 0 },
  progressing_feature_missing: { enforcing: 1, lackingFeatures: 1, missingFeatures: 'windows' },
  degraded_invalid: { problems, inForce: 'nothing', enforcing: 0 },
  degraded_last_good: { problems, inForce: 'last-good' },
  degraded_refused: { enforcing: 1, rejections: [{ pod: 'tollway-ratelimit-1', message: 'too large' }] },
  degraded_switched_off: { running: 0, enforcing: 0, switchedOff: 'broker.enabled is false' },
  degraded_backend: { backendFailure: failure },
  suspended_paused: { paused: true },
  progressing_generation_behind: {},
}

const done = { problems: [], obstacle: undefined, synced: true } as const
const obstacle = (stalled: boolean) =>
  ({
    step: 'Synced',
    reason: 'Unreachable',
    message: 'the payments service does not answer',
    stalled,
  }) as const
const merchant: Readonly<Record<string, readonly NewCondition[]>> = {
  healthy_provisioned: deriveMerchantConditions(done),
  progressing_not_synced: deriveMerchantConditions({ ...done, synced: false, obstacle: obstacle(false) }),
  degraded_invalid: deriveMerchantConditions({ problems, obstacle: undefined, synced: false }),
  degraded_obstacle: deriveMerchantConditions({ ...done, synced: false, obstacle: obstacle(true) }),
  degraded_backend: [...deriveMerchantConditions(done), ...degraded(failure)],
  suspended_paused: pausedConditions(deriveMerchantConditions(done)),
  progressing_generation_behind: deriveMerchantConditions(done),
}

/** Returns a case for each state of a kind, and one without a status. */
export function healthCases(kind: string): readonly HealthCase[] {
  const derived = Object.entries(fed).map(([name, facts]): [string, readonly NewCondition[]] => [
    name,
    deriveConditions({ ...right, ...facts }),
  ])
  const conditions = kind === 'Merchant' ? Object.entries(merchant) : derived
  const metadata = { name: 'example', namespace: 'shop', generation }
  const resource = { apiVersion: 'tollway.dev/v1alpha1', kind, metadata }
  return [
    { name: 'progressing_no_status', resource },
    ...conditions.map(([name, fresh]) => {
      const observedGeneration = name.endsWith('generation_behind') ? generation - 1 : generation
      const all = withTransitionTimes([], fresh, observedGeneration, nowMs)
      return { name, resource: { ...resource, status: { observedGeneration, conditions: all } } }
    }),
  ]
}
