import type { Explanation } from '@tollway/ratelimit/rules/explain.ts'
import { describeLimit } from '../../kinds/rate-limit-config/describe-limit.ts'
import { explainRequest } from '../../kinds/rate-limit-config/explain-request.ts'
import { errorOfField } from '../errors.ts'
import type { TryAnswer, TryBody } from '../shapes.ts'
import { resolveDomainScope } from '../sources.ts'
import { checkRule } from './domains.ts'
import { type ApiCall, type Handler, optionalText, requiredText, type StreamHandler } from './handler.ts'

const resolveScope = (call: ApiCall) => resolveDomainScope(call.sources, requiredText(call, 'domain'))
const readSelection = (call: ApiCall) => ({
  domain: requiredText(call, 'domain'),
  rule: optionalText(call, 'rule'),
})

export const series: StreamHandler = {
  event: 'point',
  resolveScope,
  check: checkRule,
  stream: call => call.sources.pods.series(readSelection(call), call.signal),
}

export const tap: StreamHandler = {
  event: 'decisions',
  resolveScope,
  check: checkRule,
  async *stream(call) {
    const batches = call.sources.pods.tap(readSelection(call), call.signal)
    for await (const { hashed = false, ...batch } of batches) yield { ...batch, hashed }
  },
}

const readTryBody = ({ body }: ApiCall) => body as TryBody

export const tryRequest: Handler = {
  resolveScope: call => resolveDomainScope(call.sources, readTryBody(call).domain),
  async answer(call): Promise<TryAnswer> {
    const { domain, descriptors } = readTryBody(call)
    const domains = call.sources.domains().filter(content => content.domain === domain)
    if (domains.length === 0) {
      const message = `domain: no RateLimitConfig in force defines ${JSON.stringify(domain.slice(0, 100))}`
      throw errorOfField('unknown-domain', 'domain', message)
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
  { entries, result, limit, baseKey }: Explanation,
  nowSeconds: number,
): TryAnswer['descriptors'][number] {
  return {
    entries: entries.map(({ candidates, ...entry }) => ({
      ...entry,
      ...(candidates && { candidates: [...candidates] }),
    })),
    result,
    hasLimit: limit !== undefined && !limit.unlimited,
    details: limit === undefined ? [] : [...describeLimit(limit, baseKey, nowSeconds)],
  }
}
