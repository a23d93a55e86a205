import {
  deriveMerchantConditions,
  pausedConditions,
} from '../../operator/kinds/merchant/merchant-conditions.ts'
import { type NewCondition, withTransitionTimes } from '../../operator/status/conditions.ts'
import { degraded, deriveConditions, type StatusFacts } from '../../operator/status/resource-status.ts'

/** A resource with the status that the operator writes, and the health that GitOps tools must report. */
export interface HealthCase {
  /** The file in testdata, without its ending: `progressing_on_its_way`. It begins with the health. */
  readonly name: string
  readonly resource: Readonly<Record<string, unknown>>
}

const generation = 4
const nowMs = Date.parse('2026-03-01T12:00:00Z')

const right: StatusFacts = {
  ...{ problems: [], denial: undefined, paused: false, inForce: 'present', unpublished: undefined },
  ...{ unmet: undefined, running: 2, enforcing: 2, rejections: [] },
}
const problems = [{ path: 'spec.domain', message: 'is missing' }]
const failure = 'redis.default.svc:6379 refuses connections; 2 of 2 processes answer with errors'

/** The statuses of the kinds that processes enforce. */
const fed: Readonly<Record<string, Partial<StatusFacts>>> = {
  healthy_enforced: {},
  healthy_doubtful: { advisory: { reason: 'OpenOverlap', message: 'avatar- is open to all callers' } },
  progressing_older_version: { enforcing: 1 },
  progressing_no_process: { running: 0, enforcing: 0 },
  progressing_feature_missing: { enforcing: 1, lackingFeatures: 1, missingFeatures: 'windows' },
  degraded_invalid: { problems, inForce: 'nothing', enforcing: 0 },
  degraded_last_good: { problems, inForce: 'last-good' },
  degraded_rejected: { enforcing: 1, rejections: [{ pod: 'tollway-ratelimit-1', message: 'too large' }] },
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

/** The values of each fact that matters for the health. The first of each describes an enforced resource. */
const values = {
  processes: [
    { running: 2, enforcing: 2 },
    { running: 2, enforcing: 1 },
    { running: 2, enforcing: 0 },
    { running: 0, enforcing: 0 },
  ],
  inForce: ['present', 'last-good', 'nothing'],
  problems: [[], problems],
  paused: [false, true],
  unpublished: [undefined, 'too large'],
  lacking: [undefined, { reason: 'SecretUnknown', message: 'the Secret tokens was not read' }],
  switchedOff: [undefined, 'broker.enabled is false'],
  obstacle: [undefined, 'the Deployment was rejected'],
  backendFailure: [undefined, failure],
  lackingFeatures: [0, 1],
  rejections: [[], [{ pod: 'tollway-ratelimit-1', message: 'too large' }]],
  isPresent: [true, false],
} as const

/** The status that the operator derives from some facts, of the present generation or an earlier one. */
export interface FactCombination {
  readonly facts: StatusFacts
  readonly isPresent: boolean
  readonly resource: HealthCase['resource']
}

/** Returns each combination of the facts that matter for the health. */
export function factCombinations(): readonly FactCombination[] {
  let chosen: Readonly<Record<string, unknown>>[] = [{}]
  for (const [name, choices] of Object.entries(values))
    chosen = chosen.flatMap(others => choices.map(choice => ({ ...others, [name]: choice })))
  return chosen.map(({ processes, isPresent, ...others }) => {
    const facts = { ...right, ...others, ...(processes as Pick<StatusFacts, 'running' | 'enforcing'>) }
    return {
      ...{ facts, isPresent: isPresent === true },
      resource: resourceWith(deriveConditions(facts), isPresent === true ? generation : generation - 1),
    }
  })
}

const metadata = { name: 'example', namespace: 'shop', generation }

function resourceWith(conditions: readonly NewCondition[], observedGeneration: number) {
  const all = withTransitionTimes([], conditions, observedGeneration, nowMs)
  return { metadata, status: { observedGeneration, conditions: all } }
}

/** Returns a case for each state of a kind, and one without a status. */
export function healthCases(kind: string): readonly HealthCase[] {
  const derived = Object.entries(fed).map(([name, facts]): [string, readonly NewCondition[]] => [
    name,
    deriveConditions({ ...right, ...facts }),
  ])
  const conditions = kind === 'Merchant' ? Object.entries(merchant) : derived
  const resource = { apiVersion: 'tollway.dev/v1alpha1', kind, metadata }
  return [
    { name: 'progressing_no_status', resource },
    ...conditions.map(([name, fresh]) => {
      const observedGeneration = name.endsWith('generation_behind') ? generation - 1 : generation
      return { name, resource: { ...resource, ...resourceWith(fresh, observedGeneration) } }
    }),
  ]
}
