import { isConcurrency } from '../rules/fields.ts'
import type { Limit } from '../rules/limit.ts'
import type { Match } from '../rules/match.ts'
import { windowSeconds } from '../rules/window.ts'
import type { AdmittedDescriptor } from './admission.ts'
import {
  type DecisionRequest,
  type DescriptorDecision,
  noLimit,
  type RateLimitDecision,
  type ResponseHeader,
} from './decision.ts'
import { buildDynamicMetadata } from './dynamic-metadata.ts'
import type { Matches } from './match-request.ts'
import { type ResponseHeaderNames, toIetfHeaders, toLimitHeaders } from './response-headers.ts'

export interface AnswerOptions {
  /** The names of the headers of envoyproxy/ratelimit; answers have none of them when left out. */
  readonly headerNames?: ResponseHeaderNames | undefined
  /** Whether answers have the headers of the IETF draft; false when left out. */
  readonly ietfHeaders?: boolean
  /** Whether a rejection has a body that names the limits; false when left out. */
  readonly problemDetails?: boolean
  /** Whether answers have dynamic metadata; see `buildDynamicMetadata`. */
  readonly dynamicMetadata: boolean
  readonly quotaMode: boolean
}

interface DecidedCall {
  readonly request: DecisionRequest
  readonly matches: Matches
  readonly nowSeconds: number
  /** The decisions by admission (see `needsAdmission`), by the index of the descriptor. */
  readonly admitted: ReadonlyMap<number, AdmittedDescriptor>
}

/** Returns whether answers with these options contain anything besides the decision. */
export function hasExtras(options: AnswerOptions): boolean {
  return options.headerNames !== undefined || options.dynamicMetadata || listsLimits(options)
}

export function answerExtras(
  call: DecidedCall,
  decision: RateLimitDecision,
  options: AnswerOptions,
): Pick<RateLimitDecision, 'headers' | 'body' | 'metadata'> {
  const { matches, admitted, nowSeconds } = call
  const { over, statuses } = decision
  const limits = listsLimits(options) ? listLimits(matches, statuses, admitted, nowSeconds) : []
  const hasBody = over && options.problemDetails === true
  return {
    headers: [
      ...referenceHeaders(call, decision, options),
      ...(options.ietfHeaders ? toIetfHeaders(limits, over) : []),
      ...(hasBody ? [{ key: 'Content-Type', value: problemContentType }] : []),
    ],
    ...(hasBody && { body: formatProblemDetails(limits) }),
    ...(options.dynamicMetadata && { metadata: toMetadata(call, decision) }),
  }
}

function listsLimits(options: AnswerOptions): boolean {
  return options.ietfHeaders === true || options.problemDetails === true
}

function referenceHeaders(
  { matches, admitted }: DecidedCall,
  { statuses }: RateLimitDecision,
  { headerNames, quotaMode }: AnswerOptions,
): readonly ResponseHeader[] {
  if (headerNames === undefined) return []
  const isOver = (index: number) =>
    statuses[index]?.over === true && !(quotaMode || matches[index]?.limit.quotaMode === true)
  const isHidden = (index: number) => admitted.get(index)?.hidden ?? matches[index]?.limit.headers === false
  const shown = statuses.map((status, index) => (isHidden(index) ? noLimit : status))
  return toLimitHeaders(shown, isOver, headerNames)
}

function toMetadata({ request, matches }: DecidedCall, { statuses }: RateLimitDecision) {
  const ofPassed = matches.flatMap((found, index) => {
    // As in envoyproxy/ratelimit, the metadata of an unlimited rule is left out.
    const passed = found?.limit.unlimited === false && statuses[index]?.over === false
    return passed && found.limit.metadata ? [found.limit.metadata] : []
  })
  return buildDynamicMetadata(request, ofPassed)
}

/** A limit as answers list it. The call matched it, and no other limit replaced it. */
export interface ListedLimit {
  /** The name of the limit; empty if it has none. */
  readonly name: string
  readonly requestsPerUnit: number
  /** Whole seconds; undefined for a limit of what runs at the same time. */
  readonly windowSeconds: number | undefined
  /** The requests that the limit would still admit after the call. */
  readonly remaining: number
  /**
   * Whole seconds until a fixed window ends. With another algorithm, the seconds until the limit would admit
   * the same call; undefined if it never would.
   */
  readonly resetSeconds: number | undefined
  /** Whether the call exceeded the limit. False for a limit in shadow mode. */
  readonly over: boolean
  /** Whether the limit would reject the same call sent again at once. False in shadow mode. */
  readonly delays: boolean
  /** Whether answers may mention the limit; false for a limit with `headers: false`. */
  readonly shown: boolean
}

/** A limit without a name is called by its index among the limits of the call. */
export function toLabel({ name }: ListedLimit, index: number): string {
  return name === '' ? `${index}` : name
}

/**
 * Returns the limits of a decided call, except unlimited ones, in the order of the descriptors and of the
 * limits of each rule.
 *
 * @param admitted see `DecidedCall.admitted`
 */
function listLimits(
  matches: readonly (Match<unknown> | undefined)[],
  statuses: readonly DescriptorDecision[],
  admitted: ReadonlyMap<number, AdmittedDescriptor>,
  nowSeconds: number,
): readonly ListedLimit[] {
  return matches.flatMap((found, index): readonly ListedLimit[] => {
    if (found === undefined || found.limit.unlimited) return []
    const verdicts = admitted.get(index)?.verdicts
    if (verdicts !== undefined) {
      return verdicts.map(({ limit, outcome, resetSeconds, delays }) => {
        const isEnforced = !limit.shadowMode
        return {
          ...pickSettings(limit, nowSeconds),
          remaining: Math.max(0, outcome.remaining),
          resetSeconds,
          over: isEnforced && !outcome.admitted,
          delays: isEnforced && delays,
        }
      })
    }
    const { over = false, remaining = 0, limit } = statuses[index] ?? {}
    const { resetSeconds } = limit ?? {}
    return [{ ...pickSettings(found.limit, nowSeconds), remaining, resetSeconds, over, delays: over }]
  })
}

function pickSettings(limit: Limit<unknown>, nowSeconds: number) {
  const { name, requestsPerUnit, headers = true } = limit
  const window = isConcurrency(limit) ? undefined : windowSeconds(nowSeconds, limit)
  return { name, requestsPerUnit, windowSeconds: window, shown: headers }
}

const problemContentType = 'application/problem+json'

/**
 * Returns the body of a rejection (RFC 9457), with the problem type `quota-exceeded` of
 * draft-ietf-httpapi-ratelimit-headers-11, section 5.1. It names the limits that the call exceeded.
 */
export function formatProblemDetails(limits: readonly ListedLimit[]): string {
  return JSON.stringify({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Quota Exceeded',
    status: 429,
    'violated-policies': limits.flatMap((limit, index) =>
      limit.over && limit.shown ? [toLabel(limit, index)] : [],
    ),
  })
}
