import type { Question } from './load/requests.ts'

/** The domain of every benchmark. */
export const domain = 'bench'

/** A limit that is never reached. */
export const generous = 1_000_000_000

/** Configurations as YAML, with windows of a day, so that few runs see two of them. */
export function userRule(requestsPerUnit: number): string {
  return `domain: ${domain}\ndescriptors: [{key: user, rate_limit: ${rateLimit(requestsPerUnit)}}]\n`
}

function rateLimit(requestsPerUnit: number): string {
  return `{unit: day, requests_per_unit: ${requestsPerUnit}}`
}

const pathsOfTenant = 99

/** A configuration with `rules` rules, in hundreds: tenants, and 99 paths below each. */
export function nestedRules(rules: number): string {
  const paths = Array.from(
    { length: pathsOfTenant },
    (_, path) => `  - {key: path, value: /p${path}, rate_limit: ${rateLimit(generous)}}\n`,
  ).join('')
  const tenants = Array.from(
    { length: rules / (pathsOfTenant + 1) },
    (_, tenant) => `- key: tenant\n  value: t${tenant}\n  descriptors:\n${paths}`,
  )
  return `domain: ${domain}\ndescriptors:\n${tenants.join('')}`
}

/** One descriptor `user=k…` for each key. */
export function userQuestions(keys: number): readonly Question[] {
  return Array.from({ length: keys }, (_, key) => ({
    domain,
    descriptors: [{ entries: [{ key: 'user', value: `k${key}` }] }],
  }))
}

/** Two descriptors of one tenant, each of which matches a different rule of `nestedRules(rules)`. */
export function nestedQuestions(rules: number, count: number, first = 0): readonly Question[] {
  const tenants = rules / (pathsOfTenant + 1)
  const nested = (tenant: number, path: number) => ({
    entries: [
      { key: 'tenant', value: `t${tenant}` },
      { key: 'path', value: `/p${path % pathsOfTenant}` },
    ],
  })
  return Array.from({ length: count }, (_, place) => {
    const tenant = (first + place) % tenants
    const path = Math.floor((first + place) / tenants)
    return { domain, descriptors: [nested(tenant, path), nested(tenant, path + 1)] }
  })
}
