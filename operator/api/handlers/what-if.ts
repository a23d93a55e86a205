import type { ReplayedRule, WhatIfResult } from '../../counters/pod-sessions.ts'
import { encodeRateLimitDomain } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import { ApiError } from '../api-error.ts'
import { maxWhatIfBytes } from '../endpoints.ts'
import { bodyTooLarge } from '../input/read-body.ts'
import type { WhatIfAnswer } from '../shapes.ts'
import { placeOfDomain } from '../sources.ts'
import type { ApiCall, Handler } from './handler.ts'
import { checkClaim, describeWarnings, type Proposal, proposalOf } from './proposal.ts'

const maxRules = 10_000

/** A proposal is validated before the right is checked, because its domain says where the right is needed. */
export const whatIf: Handler = {
  placeOf(call) {
    const { domain, name } = proposalIn(call).domain
    const [namespace = ''] = name.split('/')
    return { namespace, ...placeOfDomain(call.sources, domain) }
  },
  async answer(call): Promise<WhatIfAnswer> {
    const proposal = checkClaim(proposalIn(call), call.sources)
    const { domain } = proposal.domain
    const { bytes } = encodeRateLimitDomain(proposal.domain)
    if (bytes.length > maxWhatIfBytes)
      throw bodyTooLarge(`the encoded resource is larger than ${maxWhatIfBytes} bytes`)
    const resource = Buffer.from(bytes).toString('base64')
    const steps = call.sources.pods.whatIf({ domain, resource }, call.signal)
    for await (const step of steps) {
      if (step.kind === 'result') return describeResult(proposal, step.result)
    }
    throw new ApiError(504, 'deadline', 'no pod has finished the replay')
  },
}

const proposalIn = ({ body }: ApiCall) => proposalOf(body as Readonly<Record<string, unknown>>)

function describeResult(proposal: Proposal, { now, proposed, keys, coverage }: WhatIfResult): WhatIfAnswer {
  const none = { allowed: 0, refused: 0, refusedAtLeast: 0, refusedAtMost: 0 }
  const nowByRule = new Map(now.map(rule => [rule.rule, rule]))
  const proposedByRule = new Map(proposed.map(rule => [rule.rule, rule]))
  const names = [...new Set([...nowByRule.keys(), ...proposedByRule.keys()])].sort()
  const hitsOf = ({
    allowed,
    refused,
    refusedAtLeast,
    refusedAtMost,
  }: Omit<ReplayedRule, 'rule'> = none) => ({
    ...{ allowed, refused, refusedAtLeast, refusedAtMost },
  })
  return {
    domain: proposal.domain.domain,
    warnings: describeWarnings(proposal),
    rules: names.slice(0, maxRules).map(rule => ({
      rule,
      now: hitsOf(nowByRule.get(rule)),
      proposed: hitsOf(proposedByRule.get(rule)),
    })),
    unlistedRules: Math.max(0, names.length - maxRules),
    keys: keys.map(({ entries, hits, refusedNow, refusedProposed }) => ({
      ...{ entries: [...entries], hits, refusedNow, refusedProposed },
    })),
    coverage: { ...coverage, started: [...coverage.started], missing: [...coverage.missing] },
  }
}
