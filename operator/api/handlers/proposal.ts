import type { RateLimitDomain } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { translateRateLimitConfig } from '../../kinds/rate-limit-config/translate-rate-limit-config.ts'
import { invalid } from '../api-error.ts'

const apiVersion = 'tollway.dev/v1alpha1'

/** The translation of a large resource takes a second, and two functions need it. */
const proposals = new WeakMap<object, RateLimitDomain>()

/**
 * Translates a proposed RateLimitConfig.
 *
 * @throws ApiError with all problems of the resource
 */
export function proposalOf(resource: Readonly<Record<string, unknown>>): RateLimitDomain {
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
