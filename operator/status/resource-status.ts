import type { SharingStatus } from '@tollway/crds/rate-limit-config.ts'
import type { ClaimDenial } from '../kinds/claims.ts'
import {
  type Advisory,
  formatProblem,
  type ResourceProblem,
  type UnmetDependency,
} from '../kinds/kind-adapter.ts'
import { pausedAnnotation } from '../kinds/source.ts'
import type { NewCondition, StatusCondition } from './conditions.ts'

/** The status of a resource, as `tollway status` shows it and the API server stores it. */
export interface ResourceStatus {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** Where the resource is declared: `checkout.yaml`. */
  readonly origin: string
  readonly observedGeneration: number
  /** What the resource is about: the domain of a RateLimitConfig, the prefix of an AnimationStreamRoute. */
  readonly subject: string
  /**
   * The counts of the resource's kind. `rules` counts the limits in force, which are those of the last good
   * version while the present one is invalid.
   */
  readonly counts: Readonly<Record<string, number>>
  /** How many of the processes that accept calls enforce the content in force: `2/2`. */
  readonly enforced: string
  readonly problems: readonly ResourceProblem[]
  /** Further values of the resource's kind, by their field names in the status. They contain no secret. */
  readonly details?: Readonly<Record<string, string>>
  /** How limits are shared; left out without such limits, and `unknown` while the stored value stays. */
  readonly sharing?: SharingStatus | 'unknown'
  readonly conditions: readonly StatusCondition[]
  /** The number of resources in a group that `groupResources` has made; left out for a single resource. */
  readonly resources?: number
}

export interface StatusFacts {
  readonly problems: readonly ResourceProblem[]
  /** Why the resource may not have its claim, such as its domain; undefined if it may. */
  readonly denial: ClaimDenial | undefined
  /** Whether the author requests that the content in force stays. */
  readonly paused: boolean
  /** Which content the feed should carry: the present one, the last good one, or none. */
  readonly inForce: 'present' | 'last-good' | 'nothing'
  /** The generation of the last good content; left out if it is unknown. */
  readonly lastGoodGeneration?: number | undefined
  /** Why the feed could not carry the last snapshot; undefined if it could. */
  readonly unpublished: string | undefined
  /**
   * A missing dependency, such as a Secret. Without it the feed carries other content than the author
   * intends.
   */
  readonly unmet: UnmetDependency | undefined
  /** Something about a valid resource that is probably not intended. */
  readonly advisory?: Advisory | undefined
  /** Why no process runs that would enforce the resource; undefined if such processes run. */
  readonly switchedOff?: string | undefined
  /** The error of the last request to change the processes, which is retried; undefined if there is none. */
  readonly obstacle?: string | undefined
  /** The message of the condition Degraded; undefined while the backend of the processes answers. */
  readonly backendFailure?: string | undefined
  /** The number of processes that accept calls. */
  readonly running: number
  /** The number of these processes that acknowledged the content in force. */
  readonly enforcing: number
  /**
   * The number of running processes that the feed does not send the content to, because they lack a feature;
   * 0 when left out.
   */
  readonly lackingFeatures?: number
  /** The features that these processes lack: `windows, calendar`. */
  readonly missingFeatures?: string
  readonly rejections: readonly { readonly pod: string; readonly message: string }[]
}

/**
 * A condition's message shows at most this many problems and the number of the others; the status lists all.
 */
const maxShownProblems = 5

/**
 * Derives the conditions of a resource.
 *
 * - Accepted: the resource is valid and may have its claim.
 * - Programmed: the feed carries the content, and no process rejects it.
 * - Enforced: every process that accepts calls has acknowledged the content.
 * - Ready: all three.
 *
 * The others are present only while they apply.
 *
 * - Reconciling: a change is on its way. `kstatus` reads this one and Stalled.
 * - Stalled: a user must change something.
 * - Paused: the author requests that the content in force stays.
 * - Doubtful: the resource is valid, but probably not as intended.
 * - Degraded: the backend of the processes fails.
 */
export function deriveConditions(facts: StatusFacts): readonly NewCondition[] {
  const accepted = acceptedCondition(facts)
  const programmed = programmedCondition(facts)
  const enforced = enforcedCondition(facts)
  const missing = [accepted, programmed, enforced].find(({ status }) => status !== 'True')
  const ready: NewCondition =
    missing === undefined
      ? { type: 'Ready', status: 'True', reason: 'Enforced', message: enforced.message }
      : { ...missing, type: 'Ready', status: 'False' }
  return [
    accepted,
    programmed,
    enforced,
    ready,
    ...describeTransition(ready),
    ...(facts.paused ? [paused] : []),
    ...advise(facts),
    ...degraded(facts.backendFailure),
  ]
}

const paused: NewCondition = {
  type: 'Paused',
  status: 'True',
  reason: 'Annotated',
  message: `Enforcement does not change until the annotation ${pausedAnnotation} is removed`,
}

export function degraded(backendFailure: string | undefined): readonly NewCondition[] {
  if (backendFailure === undefined) return []
  return [{ type: 'Degraded', status: 'True', reason: 'BackendUnavailable', message: backendFailure }]
}

function advise({ advisory }: StatusFacts): readonly NewCondition[] {
  return advisory === undefined ? [] : [{ type: 'Doubtful', status: 'True', ...advisory }]
}

/** Reasons that may end without a change by a user. */
const transientReasons: ReadonlySet<string> = new Set([
  'Pending',
  'FeatureMissing',
  'NoProcess',
  'SecretUnknown',
  'ClaimKept',
])

export function isTransient({ reason }: Pick<StatusCondition, 'reason'>): boolean {
  return transientReasons.has(reason)
}

function describeTransition({ status, reason, message }: NewCondition): readonly NewCondition[] {
  if (status === 'True') return []
  const type = isTransient({ reason }) ? 'Reconciling' : 'Stalled'
  return [{ type, status: 'True', reason, message }]
}

function acceptedCondition({ problems, denial, inForce }: StatusFacts): NewCondition {
  const type = 'Accepted'
  const stays = inForce === 'last-good' ? '. The last good version stays in force' : ''
  if (problems.length > 0) {
    const shown = problems.slice(0, maxShownProblems).map(formatProblem)
    if (problems.length > maxShownProblems) shown.push(`${problems.length - maxShownProblems} more problems`)
    return { type, status: 'False', reason: 'Invalid', message: shown.join('; ') + stays }
  }
  if (denial !== undefined) {
    const { reason, path, message } = denial
    return { type, status: 'False', reason, message: formatProblem({ path, message }) + stays }
  }
  return { type, status: 'True', reason: 'Valid', message: 'The resource is valid' }
}

function programmedCondition(facts: StatusFacts): NewCondition {
  const { inForce, lastGoodGeneration, rejections, unpublished, unmet } = facts
  const type = 'Programmed'
  if (unpublished !== undefined) {
    const message = `The feed is unchanged, because it cannot hold all resources: ${unpublished}`
    return { type, status: 'False', reason: 'NotPublished', message }
  }
  if (inForce === 'nothing') {
    return { type, status: 'False', reason: 'NotAccepted', message: 'Not published to the feed' }
  }
  if (inForce === 'last-good') {
    const which = lastGoodGeneration === undefined ? '' : `, generation ${lastGoodGeneration},`
    const message = `The last good version${which} is published to the feed`
    return { type, status: 'False', reason: 'LastGoodInForce', message }
  }
  if (unmet !== undefined) return { type, status: 'False', ...unmet }
  if (rejections.length === 0)
    return { type, status: 'True', reason: 'InFeed', message: 'Published to the feed' }
  const message = rejections.map(({ pod, message }) => `${pod} rejected it: ${message}`).join('; ')
  return { type, status: 'False', reason: 'Refused', message }
}

function enforcedCondition(facts: StatusFacts): NewCondition {
  const { inForce, running, enforcing, switchedOff, obstacle, lackingFeatures = 0, missingFeatures } = facts
  const type = 'Enforced'
  const what = inForce === 'last-good' ? 'the last good version' : 'it'
  const message = `${enforcing} of ${running} processes enforce ${what}`
  const awaited = obstacle === undefined ? '' : `. The change of the processes is retried after: ${obstacle}`
  if (inForce === 'nothing')
    return { type, status: 'False', reason: 'NotAccepted', message: 'No process enforces it' }
  if (inForce === 'last-good') return { type, status: 'False', reason: 'LastGoodInForce', message }
  if (running === 0 && switchedOff !== undefined)
    return { type, status: 'False', reason: 'SwitchedOff', message: switchedOff }
  if (running === 0)
    return { type, status: 'False', reason: 'NoProcess', message: `No process accepts calls${awaited}` }
  if (lackingFeatures > 0) {
    const [get, lack, all] = lackingFeatures === 1 ? ['does', 'it lacks', 'it'] : ['do', 'they lack', 'them']
    const withheld = `${lackingFeatures} of them ${get} not get it, because ${lack} ${missingFeatures}`
    const advice = `update ${all} to the version of the operator`
    return { type, status: 'False', reason: 'FeatureMissing', message: `${message}; ${withheld}: ${advice}` }
  }
  if (enforcing < running)
    return { type, status: 'False', reason: 'Pending', message: `${message}${awaited}` }
  return { type, status: 'True', reason: 'Enforced', message }
}
