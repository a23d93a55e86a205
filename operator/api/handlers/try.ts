import type { Explanation } from '@tollway/ratelimit/rules/explain.ts'
import { describeLimit } from '../../kinds/rate-limit-config/describe-limit.ts'
import { explainRequest } from '../../kinds/rate-limit-config/explain-request.ts'
import { ApiError } from '../api-error.ts'
import type { TryAnswer, TryBody } from '../shapes.ts'
import { placeOfDomain } from '../sources.ts'
import type { ApiCall, Handler } from './handler.ts'

const bodyOf = ({ body }: ApiCall) => body as TryBody

/** Explains a request by the rules in force. */
export const tryRequest: Handler = {
  placeOf: call => placeOfDomain(call.sources, bodyOf(call).domain),
  async answer(call): Promise<TryAnswer> {
    const { domain, descriptors } = bodyOf(call)
    const domains = call.sources.domains().filter(content => content.domain === domain)
    if (domains.length === 0) {
      const message = `domain: no RateLimitConfig in force defines ${JSON.stringify(domain.slice(0, 100))}`
      throw new ApiError(404, 'unknown-domain', message, { problems: [{ path: 'domain', message }] })
    }
    const { explanations, isAtomic } = explainRequest(domains, domain, descriptors)
    const nowSeconds = Math.floor(call.sources.clock.nowMs() / 1000)
    return {
      domain,
      descriptors: explanations.map(explanation => describeExplanation(explanation, nowSeconds)),
      allOrNothing: isAtomic,
    }
  },
}

function describeExplanation(
  { entries, result, limit, stem }: Explanation,
  nowSeconds: number,
): TryAnswer['descriptors'][number] {
  return {
    entries: entries.map(entry => ({ ...entry })),
    result,
    hasLimit: limit !== undefined && !limit.unlimited,
    details: limit === undefined ? [] : [...describeLimit(limit, stem, nowSeconds)],
  }
}
