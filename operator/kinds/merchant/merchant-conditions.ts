import type { NewCondition } from '../../status/conditions.ts'
import { formatProblem, type ResourceProblem } from '../kind-adapter.ts'
import { pausedAnnotation } from '../source.ts'

export interface MerchantFacts {
  readonly problems: readonly ResourceProblem[]
  /** What stopped the last reconcile; undefined if it completed all steps. */
  readonly obstacle: MerchantObstacle | undefined
  /** Whether the merchant exists and is as specified. This may hold even if a later step failed. */
  readonly synced: boolean
}

/** Why a step of a reconcile could not be completed. */
export interface MerchantObstacle {
  /** The type of the condition that the obstacle makes False. */
  readonly step: 'Synced' | 'CredentialsReady'
  /** The `reason` of that condition: `SecretForeign`. */
  readonly reason: string
  readonly message: string
  /** Whether only a change by a user removes the obstacle. Other obstacles may end without one. */
  readonly stalled: boolean
}

/**
 * The reason of conditions when the resource changes a field that an existing merchant cannot change. A
 * separate condition also has this as its type.
 */
export const immutableFieldChanged = 'ImmutableFieldChanged'

const maxShownProblems = 5

/**
 * Derives the conditions of a Merchant.
 *
 * - Accepted: the resource is valid.
 * - Synced: the merchant exists and is as the resource specifies.
 * - CredentialsReady: the Secret has the credentials.
 * - Ready: all three.
 *
 * Reconciling, Stalled and ImmutableFieldChanged are present only while they apply.
 */
export function deriveMerchantConditions(facts: MerchantFacts): readonly NewCondition[] {
  const accepted = acceptedCondition(facts)
  const steps = [accepted, syncedCondition(facts), credentialsCondition(facts)]
  const isMissing = ({ status }: NewCondition) => status !== 'True'
  // Ready shows the obstacle's step, because the steps after it were not attempted.
  const missing =
    steps.find(step => isMissing(step) && step.type === facts.obstacle?.step) ?? steps.find(isMissing)
  const ready: NewCondition =
    missing === undefined
      ? isTrue('Ready', 'Provisioned', 'The merchant exists, and the Secret has its credentials')
      : { ...missing, type: 'Ready', status: 'False' }
  return [...steps, ready, ...passing(ready, facts)]
}

const isTrue = (type: string, reason: string, message: string): NewCondition => ({
  type,
  status: 'True',
  reason,
  message,
})
const isFalse = (type: string, reason: string, message: string): NewCondition => ({
  type,
  status: 'False',
  reason,
  message,
})

/**
 * Returns the conditions of a paused resource: the earlier ones and Paused, without Degraded, which describes
 * the present state and is added separately.
 */
export function pausedConditions(before: readonly NewCondition[]): readonly NewCondition[] {
  return [...withoutDegraded(before).filter(({ type }) => type !== paused.type), paused]
}

export function withoutDegraded<Known extends NewCondition>(conditions: readonly Known[]): readonly Known[] {
  return conditions.filter(({ type }) => type !== 'Degraded')
}

const paused = isTrue(
  'Paused',
  'Annotated',
  `Changes are not applied until the annotation ${pausedAnnotation} is removed`,
)

function acceptedCondition({ problems }: MerchantFacts): NewCondition {
  if (problems.length === 0) return isTrue('Accepted', 'Valid', 'The resource is valid')
  const shown = problems.slice(0, maxShownProblems).map(formatProblem)
  if (problems.length > maxShownProblems) shown.push(`${problems.length - maxShownProblems} more problems`)
  return isFalse('Accepted', 'Invalid', `${shown.join('; ')}. The merchant is unchanged`)
}

function syncedCondition({ problems, obstacle, synced }: MerchantFacts): NewCondition {
  const type = 'Synced'
  if (problems.length > 0) return isFalse(type, 'NotAccepted', 'Not sent to the payments service')
  if (obstacle?.step === type) return isFalse(type, obstacle.reason, obstacle.message)
  if (synced) return isTrue(type, 'Provisioned', 'The merchant matches the resource')
  return isFalse(type, 'Pending', 'Not yet sent to the payments service')
}

function credentialsCondition({ problems, obstacle, synced }: MerchantFacts): NewCondition {
  const type = 'CredentialsReady'
  if (obstacle?.step === type) return isFalse(type, obstacle.reason, obstacle.message)
  if (problems.length > 0) return isFalse(type, 'NotAccepted', 'The Secret is not checked')
  if (!synced || obstacle !== undefined) return isFalse(type, 'NotSynced', 'The Secret is unchanged')
  return isTrue(type, 'Written', 'The Secret has the credentials')
}

/** Returns the conditions that `kstatus` reads, and ImmutableFieldChanged if that is the reason. */
function passing(
  { status, reason, message }: NewCondition,
  { obstacle, problems }: MerchantFacts,
): readonly NewCondition[] {
  if (status === 'True') return []
  const isStalled = problems.length > 0 || obstacle?.stalled === true
  const found = isTrue(isStalled ? 'Stalled' : 'Reconciling', reason, message)
  return reason === immutableFieldChanged
    ? [found, isTrue(immutableFieldChanged, 'Refused', message)]
    : [found]
}
