import type { ResponseHeader } from '../decision.ts'
import { ietfHeaders } from './ietf-headers.ts'
import type { ListedLimit } from './listed-limit.ts'
import { problemContentType, problemDetails } from './problem-details.ts'

export interface AnswerOptions {
  /** Whether answers have the headers of the IETF draft. */
  readonly ietfHeaders?: boolean
  /** Whether a refusal has a body that names the limits. */
  readonly problemDetails?: boolean
}

/** Returns the headers and the body of an answer that are about all limits of the call. */
export function answerExtras(
  limits: readonly ListedLimit[],
  over: boolean,
  options: AnswerOptions,
): { readonly headers: readonly ResponseHeader[]; readonly body?: string } {
  const hasBody = over && options.problemDetails === true
  const headers = [
    ...(options.ietfHeaders ? ietfHeaders(limits, over) : []),
    ...(hasBody ? [{ key: 'Content-Type', value: problemContentType }] : []),
  ]
  return { headers, ...(hasBody && { body: problemDetails(limits) }) }
}
