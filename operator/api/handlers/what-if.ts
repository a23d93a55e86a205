import type { RateLimitDomain } from '@tollway/ratelimit/rules/config.ts'
import type { ReplayedRule, WhatIfResult } from '../../counters/pod-sessions.ts'
import { encodeRateLimitDomain } from '../../kinds/rate-limit-config/encode-rate-limit-domain.ts'
import { translateRateLimitConfig } from '../../kinds/rate-limit-config/translate-rate-limit-config.ts'
import { ApiError, invalid } from '../api-error.ts'
import { maxWhatIfBytes } from '../endpoints.ts'
import type { WhatIfAnswer } from '../shapes.ts'
import { ownerOf } from '../sources.ts'
import type { ApiCall, Handler } from './handler.ts'

const maxRules = 10_000
const apiVersion = 'tollway.dev/v1alpha1'

/** A proposal is validated before the right is checked, because its domain says where the right is needed. */
export const whatIf: Handler = {
  placeOf(call) {
    const { domain, name } = proposalOf(call)
    const [namespace = ''] = name.split('/')
    return ownerOf(call.sources, domain) ?? { namespace }
  },
  async answer(call): Promise<WhatIfAnswer> {
    const proposal = proposalOf(call)
    const { bytes } = encodeRateLimitDomain(proposal)
    if (bytes.length > maxWhatIfBytes) throw new ApiError(413, 'too-large', 'the resource is too large')
    const resource = Buffer.from(bytes).toString('base64')
    const steps = call.sources.pods.whatIf({ domain: proposal.domain, resource }, call.signal)
    for await (const step of steps) {
      if (step.kind === 'result') return describeResult(proposal.domain, step.result)
    }
    throw new ApiError(504, 'deadline', 'no pod has finished the replay')
  },
}

/** The translation of a large resource takes a second, and two functions need it. */
const proposals = new WeakMap<object, RateLimitDomain>()

/** @throws ApiError with all problems of the resource */
function proposalOf({ body }: Pick<ApiCall, 'body'>): RateLimitDomain {
  const resource = body as Readonly<Record<string, unknown>>
  const known = proposals.get(resource)
  if (known !== undefined) return known
  const problems = [
    ...unlike('apiVersion', resource['apiVersion'], apiVersion),
    ...unlike('kind', resource['kind'], 'RateLimitConfig'),
  ]
  if (problems.length > 0) throw invalid(problems)
  const { namespace = 'default', name } = (resource['metadata'] ?? {}) as Record<string, unknown>
  for (const [field, value] of Object.entries({ namespace, name })) {
    if (typeof value !== 'string' || !/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(value)) {
      const message = `${shown(value)} is not allowed; expected a name of lower-case letters, digits and -`
      throw invalid([{ path: `metadata.${field}`, message }])
    }
  }
  const translation = translateRateLimitConfig(`${namespace}/${name}`, resource)
  if ('problems' in translation) throw invalid(translation.problems)
  proposals.set(resource, translation.value)
  return translation.value
}

function unlike(path: string, found: unknown, expected: string) {
  return found === expected ? [] : [{ path, message: `${shown(found)} is not ${expected}` }]
}

const shown = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 100)

function describeResult(domain: string, { now, proposed, keys, coverage }: WhatIfResult): WhatIfAnswer {
  const none: Omit<ReplayedRule, 'rule'> = { allowed: 0, refused: 0 }
  const nowByRule = new Map(now.map(rule => [rule.rule, rule]))
  const proposedByRule = new Map(proposed.map(rule => [rule.rule, rule]))
  const names = [...new Set([...nowByRule.keys(), ...proposedByRule.keys()])].sort()
  const share = ({ allowed, refused } = none) => ({ allowed, refused })
  return {
    domain,
    rules: names.slice(0, maxRules).map(rule => ({
      rule,
      now: share(nowByRule.get(rule)),
      proposed: share(proposedByRule.get(rule)),
    })),
    keys: keys.map(({ entries, hits, refusedNow, refusedProposed }) => ({
      ...{ entries: [...entries], hits, refusedNow, refusedProposed },
    })),
    coverage: { ...coverage, missing: [...coverage.missing] },
  }
}
