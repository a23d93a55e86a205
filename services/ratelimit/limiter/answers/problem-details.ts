import { type ListedLimit, labelOf } from './listed-limit.ts'

export const problemContentType = 'application/problem+json'

/**
 * Returns the body of a refusal (RFC 9457), with the problem type `quota-exceeded` of
 * draft-ietf-httpapi-ratelimit-headers-11, section 5.1. It names the limits that the call exceeded.
 */
export function problemDetails(limits: readonly ListedLimit[]): string {
  return JSON.stringify({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Quota Exceeded',
    status: 429,
    'violated-policies': limits.flatMap((limit, index) =>
      limit.over && limit.shown ? [labelOf(limit, index)] : [],
    ),
  })
}
