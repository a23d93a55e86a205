import type { RateLimitDomain } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { openDomainClaims } from '../../kinds/rate-limit-config/claim-domains.ts'
import { translateRateLimitConfig } from '../../kinds/rate-limit-config/translate-rate-limit-config.ts'
import type { FieldProblem } from '../../kinds/translation.ts'
import { invalid } from '../api-error.ts'
import { type ApiSources, contentOf, readOwner } from '../sources.ts'

const apiVersion = 'tollway.dev/v1alpha1'

/** The translation of a large resource takes a second, and two functions need it. */
const proposals = new WeakMap<object, Proposal>()

export interface Proposal {
  readonly domain: RateLimitDomain
  /** Settings that are valid and probably mistakes. */
  readonly warnings: readonly FieldProblem[]
}

/**
 * Translates a proposed RateLimitConfig.
 *
 * @throws ApiError with all problems of the resource
 */
export function proposalOf(resource: Readonly<Record<string, unknown>>): Proposal {
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
  const proposal = { domain: translation.value, warnings: translation.warnings }
  proposals.set(resource, proposal)
  return proposal
}

/**
 * Checks whether the domain is kept for other namespaces, or belongs to another resource. Returns the
 * proposal, with a warning if its resource exists: it gets the domain if it is older. Call it for callers
 * with the right to act, since the message names the other resource.
 *
 * @throws ApiError with the problem as `tollway validate` reports it, for a new resource, and for each
 *   resource if the domain is kept for other namespaces
 */
export function checkClaim(
  proposal: Proposal,
  sources: Pick<ApiSources, 'domainGrants' | 'domains' | 'report'>,
): Proposal {
  const { domain } = proposal
  const claims = openDomainClaims(sources.domainGrants)
  const claimantOf = ({ name }: RateLimitDomain) => ({ name, namespace: readOwner(name).namespace })
  const notGranted = claims.denialOf(domain, claimantOf(domain))
  if (notGranted !== undefined) throw invalid([notGranted])
  const inForce = contentOf(sources, domain.domain)
  if (inForce === undefined || inForce.name === domain.name) return proposal
  claims.grant(inForce, claimantOf(inForce))
  const denial = claims.denialOf(domain, claimantOf(domain))
  if (denial === undefined) return proposal
  if (!isKnown(domain.name, sources)) throw invalid([denial])
  const message = `"${domain.domain}" belongs to ${inForce.name}, unless this resource is older`
  return { domain, warnings: [...proposal.warnings, { path: denial.path, message }] }
}

const isKnown = (name: string, { report }: Pick<ApiSources, 'report'>): boolean =>
  report().resources.some(
    each => each.kind === 'RateLimitConfig' && `${each.namespace}/${each.name}` === name,
  )

/** The warnings of a proposal, as answers have them. */
export const describeWarnings = ({ warnings }: Proposal) =>
  warnings.map(({ path, message }) => ({ field: path, message }))

function unlike(path: string, found: unknown, expected: string) {
  return found === expected ? [] : [{ path, message: `${shown(found)} is not ${expected}` }]
}

const shown = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 100)
