import { apiVersion } from '@tollway/crds/resource-kind.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import type { ResourceProblem } from '../../kinds/kind-adapter.ts'
import { encodeRateLimitDomain, openDomainClaims } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import { translateRateLimitConfig } from '../../kinds/rate-limit-config/translate-rate-limit-config.ts'
import { maxWhatIfBytes, type RuleOutcome, type WhatIfResult } from '../../ratelimit-queries/pod-sessions.ts'
import { ApiError, invalidInput } from '../errors.ts'
import { bodyTooLarge } from '../input.ts'
import type { ApplyAnswer, ApplyBody } from '../manifest-shapes.ts'
import type { WhatIfAnswer } from '../shapes.ts'
import { type ApiSources, findDomain, parseResourceName, resolveDomainScope } from '../sources.ts'
import type { ApiCall, Handler } from './handler.ts'

const readApplyBody = ({ body }: ApiCall) => body as ApplyBody

/** Applies a RateLimitConfig with the rights of the caller: in its file, or in the cluster. */
export const apply: Handler = {
  resolveScope: call => parseResourceName(translateProposal(readApplyBody(call).resource).domain.name),
  async answer(call): Promise<ApplyAnswer> {
    const { resource, manifest, dryRun = false, force = false, version } = readApplyBody(call)
    const proposal = translateProposal(resource)
    const warnings = describeWarnings(checkClaim(proposal, call.sources))
    const target = parseResourceName(proposal.domain.name)
    const { token } = call.caller
    const request = { resource, manifest, version, ...target, dryRun, force, token, signal: call.signal }
    return { ...target, dryRun, warnings, ...(await call.sources.apply(request)) }
  },
}

const maxRules = 10_000

/** A proposal is validated before the right is checked, because its domain says where the right is needed. */
export const whatIfHandler: Handler = {
  resolveScope(call) {
    const { domain, name } = readProposal(call).domain
    const [namespace = ''] = name.split('/')
    return { namespace, ...resolveDomainScope(call.sources, domain) }
  },
  async answer(call): Promise<WhatIfAnswer> {
    const proposal = checkClaim(readProposal(call), call.sources)
    const { domain } = proposal.domain
    const { bytes } = encodeRateLimitDomain(proposal.domain)
    if (bytes.length > maxWhatIfBytes)
      throw bodyTooLarge(`the encoded resource is larger than ${maxWhatIfBytes} bytes`)
    const steps = call.sources.pods.whatIf({ domain, resource: bytes }, call.signal)
    for await (const step of steps) {
      if (step.kind === 'result') return describeResult(proposal, step.result)
    }
    throw new ApiError('deadline', 'no pod has finished the replay')
  },
}

const readProposal = ({ body }: ApiCall) => translateProposal(body as Readonly<Record<string, unknown>>)

function describeResult(proposal: Proposal, { now, proposed, keys, coverage }: WhatIfResult): WhatIfAnswer {
  const none = { allowed: 0, refused: 0, refusedAtLeast: 0, refusedAtMost: 0 }
  const nowByRule = new Map(now.map(rule => [rule.rule, rule]))
  const proposedByRule = new Map(proposed.map(rule => [rule.rule, rule]))
  const names = [...new Set([...nowByRule.keys(), ...proposedByRule.keys()])].sort()
  const pickHits = ({
    allowed,
    refused,
    refusedAtLeast,
    refusedAtMost,
  }: Omit<RuleOutcome, 'rule'> = none) => ({
    allowed,
    refused,
    refusedAtLeast,
    refusedAtMost,
  })
  return {
    domain: proposal.domain.domain,
    warnings: describeWarnings(proposal),
    rules: names.slice(0, maxRules).map(rule => ({
      rule,
      now: pickHits(nowByRule.get(rule)),
      proposed: pickHits(proposedByRule.get(rule)),
    })),
    unlistedRules: Math.max(0, names.length - maxRules),
    keys: keys.map(({ entries, hits, refusedNow, refusedProposed }) => ({
      entries: [...entries],
      hits,
      refusedNow,
      refusedProposed,
    })),
    coverage: { ...coverage, started: [...coverage.started], missing: [...coverage.missing] },
  }
}

/**
 * Caches the translation of each body, since both `resolveScope` and `answer` need it, and the translation of
 * a large resource takes a second.
 */
const proposals = new WeakMap<object, Proposal>()

interface Proposal {
  readonly domain: RateLimitDomain
  /** Problems of settings that are valid but probably mistakes. */
  readonly warnings: readonly ResourceProblem[]
}

/** @throws ApiError with all problems of the resource */
function translateProposal(resource: Readonly<Record<string, unknown>>): Proposal {
  const known = proposals.get(resource)
  if (known !== undefined) return known
  const problems = [
    ...requireEqual('apiVersion', resource['apiVersion'], apiVersion),
    ...requireEqual('kind', resource['kind'], 'RateLimitConfig'),
  ]
  if (problems.length > 0) throw invalidInput(problems)
  const { namespace = 'default', name } = (resource['metadata'] ?? {}) as Record<string, unknown>
  for (const [field, value] of Object.entries({ namespace, name })) {
    if (typeof value !== 'string' || !/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(value)) {
      const message = `${shown(value)} is not allowed; expected a name of lower-case letters, digits and -`
      throw invalidInput([{ path: `metadata.${field}`, message }])
    }
  }
  const translation = translateRateLimitConfig(`${namespace}/${name}`, resource)
  if ('problems' in translation) throw invalidInput(translation.problems)
  const proposal = { domain: translation.value, warnings: translation.warnings }
  proposals.set(resource, proposal)
  return proposal
}

/**
 * Checks whether the domain is kept for other namespaces, or belongs to another resource. If the proposed
 * resource exists already, a conflict with another resource is only a warning in the result, since the older
 * of the two gets the domain. The message names the other resource: call this only for callers with the right
 * to act.
 *
 * @throws ApiError with the problem as `tollway validate` reports it, for a new resource, and for each
 *   resource if the domain is kept for other namespaces
 */
function checkClaim(
  proposal: Proposal,
  sources: Pick<ApiSources, 'domainGrants' | 'domains' | 'report'>,
): Proposal {
  const { domain } = proposal
  const claims = openDomainClaims(sources.domainGrants)
  const toClaimant = ({ name }: RateLimitDomain) => ({ name, namespace: parseResourceName(name).namespace })
  const notGranted = claims.findDenial(domain, toClaimant(domain))
  if (notGranted !== undefined) throw invalidInput([notGranted])
  const inForce = findDomain(sources, domain.domain)
  if (inForce === undefined || inForce.name === domain.name) return proposal
  claims.grant(inForce, toClaimant(inForce))
  const denial = claims.findDenial(domain, toClaimant(domain))
  if (denial === undefined) return proposal
  if (!isKnown(domain.name, sources)) throw invalidInput([denial])
  const message = `"${domain.domain}" belongs to ${inForce.name}, unless this resource is older`
  return { domain, warnings: [...proposal.warnings, { path: denial.path, message }] }
}

const isKnown = (name: string, { report }: Pick<ApiSources, 'report'>): boolean =>
  report().resources.some(
    each => each.kind === 'RateLimitConfig' && `${each.namespace}/${each.name}` === name,
  )

const describeWarnings = ({ warnings }: Proposal) =>
  warnings.map(({ path, message }) => ({ field: path, message }))

function requireEqual(path: string, found: unknown, expected: string) {
  return found === expected ? [] : [{ path, message: `${shown(found)} is not ${expected}` }]
}

const shown = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 100)
