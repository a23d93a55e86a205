import type { Condition, NewCondition } from '../controller/conditions.ts'
import { type FieldProblem, formatFieldProblem } from '../translate/field-problem.ts'

/**
 * What is known of a RateLimitConfig: its status, as `tollway status` shows it and the API server stores
 * it.
 */
export interface ResourceStatus {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** Where it stands: `checkout.yaml`. */
  readonly origin: string
  readonly observedGeneration: number
  readonly domain: string
  /** Limits in force; those of the last good version while the present one is wrong. */
  readonly rules: number
  /** `2/2`: processes that enforce what is in force, of those that run. */
  readonly enforced: string
  readonly problems: readonly FieldProblem[]
  readonly conditions: readonly Condition[]
}

/** What the conditions are derived from. */
export interface Facts {
  readonly problems: readonly FieldProblem[]
  /** Another resource has the domain. */
  readonly domainOwner: string | undefined
  /** `present` or `last-good` content shall be in the feed, or nothing of the resource. */
  readonly inForce: 'present' | 'last-good' | 'nothing'
  /** Why the feed did not take what should be in force. */
  readonly unpublished: string | undefined
  readonly domain: string
  /** Processes that should enforce it. */
  readonly running: number
  /** Those of them that are ready and acknowledged what is in force. */
  readonly enforcing: number
  readonly refusals: readonly { readonly pod: string; readonly message: string }[]
}

/** More problems than this are counted in a condition's message; the status lists all. */
const maxShownProblems = 5

/**
 * Accepted: it is right. Programmed: the feed carries it, unrefused. Enforced: every process does. Ready:
 * all three.
 */
export function deriveConditions(facts: Facts): readonly NewCondition[] {
  const accepted = acceptedCondition(facts)
  const programmed = programmedCondition(facts)
  const enforced = enforcedCondition(facts)
  const missing = [accepted, programmed, enforced].find(({ status }) => status !== 'True')
  const ready: NewCondition =
    missing === undefined
      ? { type: 'Ready', status: 'True', reason: 'Enforced', message: enforced.message }
      : { ...missing, type: 'Ready', status: 'False' }
  return [accepted, programmed, enforced, ready]
}

function acceptedCondition({ problems, domainOwner, domain, inForce }: Facts): NewCondition {
  const type = 'Accepted'
  const stays = inForce === 'last-good' ? '. The last good version stays in force' : ''
  if (problems.length > 0) {
    const shown = problems.slice(0, maxShownProblems).map(formatFieldProblem)
    if (problems.length > maxShownProblems) shown.push(`${problems.length - maxShownProblems} problems more`)
    return { type, status: 'False', reason: 'Invalid', message: shown.join('; ') + stays }
  }
  if (domainOwner !== undefined) {
    const message = `spec.domain: "${domain}" belongs to ${domainOwner}, which is older; name another${stays}`
    return { type, status: 'False', reason: 'DomainConflict', message }
  }
  return { type, status: 'True', reason: 'Valid', message: 'The resource is right' }
}

function programmedCondition({ inForce, refusals, unpublished }: Facts): NewCondition {
  const type = 'Programmed'
  if (unpublished !== undefined) {
    const message = `The feed goes on as it was, for it cannot carry all resources: ${unpublished}`
    return { type, status: 'False', reason: 'NotPublished', message }
  }
  if (inForce === 'nothing') {
    return { type, status: 'False', reason: 'NotAccepted', message: 'Nothing of it is in the feed' }
  }
  if (inForce === 'last-good') {
    return {
      type,
      status: 'False',
      reason: 'LastGoodInForce',
      message: 'The feed carries the last good version',
    }
  }
  const refusal = refusals[0]
  if (refusal === undefined) return { type, status: 'True', reason: 'InFeed', message: 'The feed carries it' }
  const message = refusals.map(({ pod, message }) => `${pod} refused it: ${message}`).join('; ')
  return { type, status: 'False', reason: 'Refused', message }
}

function enforcedCondition({ inForce, running, enforcing }: Facts): NewCondition {
  const type = 'Enforced'
  const what = inForce === 'last-good' ? 'the last good version' : 'it'
  const message = `${enforcing} of ${running} processes enforce ${what}`
  if (inForce === 'nothing')
    return { type, status: 'False', reason: 'NotAccepted', message: 'No process enforces it' }
  if (inForce === 'last-good') return { type, status: 'False', reason: 'LastGoodInForce', message }
  if (running === 0) return { type, status: 'False', reason: 'NoProcess', message: 'No process runs' }
  if (enforcing < running) return { type, status: 'False', reason: 'Pending', message }
  return { type, status: 'True', reason: 'Enforced', message }
}
