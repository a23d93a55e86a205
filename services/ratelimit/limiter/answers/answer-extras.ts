import type { AdmittedDescriptor } from '../admission.ts'
import { type Decision, type DecisionRequest, noLimit, type ResponseHeader } from '../decision.ts'
import type { Matches } from '../match-request.ts'
import { dynamicMetadata } from './dynamic-metadata.ts'
import { ietfHeaders } from './ietf-headers.ts'
import { listLimits } from './list-limits.ts'
import { problemContentType, problemDetails } from './problem-details.ts'
import { type ResponseHeaderNames, responseHeaders } from './response-headers.ts'

/** What answers contain besides the decision. */
export interface AnswerOptions {
  /** The names of the reference's headers of each answer; none when left out. */
  readonly headerNames?: ResponseHeaderNames | undefined
  /** Whether answers have the headers of the IETF draft; false when left out. */
  readonly ietfHeaders?: boolean
  /** Whether a refusal has a body that names the limits; false when left out. */
  readonly problemDetails?: boolean
  /** Whether each answer has metadata about its request and rules. */
  readonly dynamicMetadata: boolean
  /** Whether every limit is a quota. */
  readonly quotaMode: boolean
}

/** The call of a decision. */
export interface DecidedCall {
  readonly request: DecisionRequest
  readonly matches: Matches
  readonly nowSeconds: number
  /** The descriptors whose limits admitted the call, instead of only counting it, by their index. */
  readonly admitted: ReadonlyMap<number, AdmittedDescriptor>
}

/** Returns whether any answer has extras. */
export function hasExtras(options: AnswerOptions): boolean {
  return options.headerNames !== undefined || options.dynamicMetadata || listsLimits(options)
}

/** Returns the headers, the body and the metadata of the answer to a call. */
export function answerExtras(
  call: DecidedCall,
  decision: Decision,
  options: AnswerOptions,
): Pick<Decision, 'headers' | 'body' | 'metadata'> {
  const { matches, admitted, nowSeconds } = call
  const { over, statuses } = decision
  const limits = listsLimits(options) ? listLimits(matches, statuses, admitted, nowSeconds) : []
  const hasBody = over && options.problemDetails === true
  return {
    headers: [
      ...referenceHeaders(call, decision, options),
      ...(options.ietfHeaders ? ietfHeaders(limits, over) : []),
      ...(hasBody ? [{ key: 'Content-Type', value: problemContentType }] : []),
    ],
    ...(hasBody && { body: problemDetails(limits) }),
    ...(options.dynamicMetadata && { metadata: metadataOf(call, decision) }),
  }
}

function listsLimits(options: AnswerOptions): boolean {
  return options.ietfHeaders === true || options.problemDetails === true
}

function referenceHeaders(
  { matches, admitted }: DecidedCall,
  { statuses }: Decision,
  { headerNames, quotaMode }: AnswerOptions,
): readonly ResponseHeader[] {
  if (headerNames === undefined) return []
  const isOver = (index: number) =>
    statuses[index]?.over === true && !(quotaMode || matches[index]?.limit.quotaMode === true)
  const isHidden = (index: number) => admitted.get(index)?.hidden ?? matches[index]?.limit.headers === false
  const shown = statuses.map((status, index) => (isHidden(index) ? noLimit : status))
  return responseHeaders(shown, isOver, headerNames)
}

function metadataOf({ request, matches }: DecidedCall, { statuses }: Decision) {
  const ofPassed = matches.flatMap((found, index) => {
    // An unlimited rule has no limit that a call could pass: the reference leaves its metadata out.
    const passed = found?.limit.unlimited === false && statuses[index]?.over === false
    return passed && found.limit.metadata ? [found.limit.metadata] : []
  })
  return dynamicMetadata(request, ofPassed)
}
