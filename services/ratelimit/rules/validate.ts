import { describeUnlikelyValue, findConfusableKeys, type Sibling } from './advisories.ts'
import { isConcurrency, type LimitProblem, maxRequestsPerUnit } from './fields.ts'
import {
  type ConfigProblem,
  type FieldSpelling,
  isRequestsPerUnit,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
  toFinalKey,
} from './model.ts'
import { createFindings, type Findings, joinPath } from './problems.ts'
import { maxRegexesOfDomain } from './regex.ts'
import { parseUnit, units } from './units.ts'
import { validateLimit, validateLimits } from './validate-limit.ts'
import { validateMatch, validateMatches } from './validate-match.ts'

/** Descriptors can be nested at most this many levels deep. No request has so many entries. */
export const maxDescriptorDepth = 64

export interface ValidateOptions {
  /** Merges several configurations of one domain instead of rejecting them. */
  readonly mergeDomainConfigs: boolean
  /** The spelling of fields in paths. */
  readonly spelling: FieldSpelling
}

/**
 * Validates configurations that are to be active together. It rejects what envoyproxy/ratelimit rejects, with
 * the same messages, and warns of settings that are valid but probably unintended. It does not stop at the
 * first problem, and lists up to `maxFindingsOfKind` problems and as many warnings.
 */
export function validateDomains(
  configs: readonly RateLimitDomain[],
  options: ValidateOptions,
): { readonly problems: readonly ConfigProblem[]; readonly warnings: readonly ConfigProblem[] } {
  const findings = createFindings()
  const names = fieldNames[options.spelling]
  const domains = new Map<string, Sibling[][]>()
  for (const config of configs) {
    const { name, domain, descriptors } = config
    if (domain === '') findings.problem(name, 'domain', 'config file cannot have empty domain')
    const parts = domains.get(domain)
    const siblings = toSiblings(name, descriptors, '')
    if (parts === undefined) domains.set(domain, [siblings])
    else if (options.mergeDomainConfigs) parts[0]?.push(...siblings)
    else {
      const message = `duplicate domain '${domain}' in config file`
      if (domain !== '') findings.problem(name, 'domain', message, 'one configuration for each domain')
      parts.push(siblings)
    }
  }
  for (const [domain, parts] of domains) {
    for (const siblings of parts)
      checkSiblings({ findings, names, spelling: options.spelling, regexes: 0 }, siblings, `${domain}.`, 1)
  }
  return { problems: findings.problems, warnings: findings.warnings }
}

const fieldNames = {
  snake: { rateLimit: 'rate_limit', requestsPerUnit: 'requests_per_unit', shareThreshold: 'share_threshold' },
  camel: { rateLimit: 'rateLimit', requestsPerUnit: 'requestsPerUnit', shareThreshold: 'shareThreshold' },
} as const satisfies Record<FieldSpelling, Record<string, string>>

interface Context {
  readonly findings: Findings
  readonly names: (typeof fieldNames)[FieldSpelling]
  readonly spelling: FieldSpelling
  /** The number of regular expressions in the domain so far. */
  regexes: number
}

function toSiblings(source: string, descriptors: readonly RateLimitRule[], parentPath: string): Sibling[] {
  const list = joinPath(parentPath, 'descriptors')
  return descriptors.map((descriptor, index) => ({ source, path: `${list}[${index}]`, descriptor }))
}

/** `parentKey` is the composite key of the parent, with a dot at its end. */
function checkSiblings(
  context: Context,
  siblings: readonly Sibling[],
  parentKey: string,
  depth: number,
): void {
  const { findings } = context
  const seen = new Map<string, Sibling>()
  for (const sibling of siblings) {
    const { source, path, descriptor } = sibling
    if (descriptor.key === '') findings.problem(source, joinPath(path, 'key'), 'descriptor has empty key')
    const finalKey = toFinalKey(descriptor)
    const first = seen.get(finalKey)
    if (first === undefined) seen.set(finalKey, sibling)
    else if (descriptor.key !== '') {
      const message = `duplicate descriptor composite key '${parentKey}${finalKey}'`
      const named =
        (descriptor.match ?? first.descriptor.match) ? '; value is the name of a rule with match' : ''
      findings.problem(source, path, message, `once; it is also at ${first.source}, ${first.path}${named}`)
    }
    checkDescriptor(context, sibling, finalKey)
    if (descriptor.descriptors.length === 0) continue
    if (depth === maxDescriptorDepth) {
      const message = `descriptors are nested more than ${maxDescriptorDepth} levels deep`
      findings.problem(source, joinPath(path, 'descriptors'), message, `at most ${maxDescriptorDepth} levels`)
      continue
    }
    const children = toSiblings(source, descriptor.descriptors, path)
    checkSiblings(context, children, `${parentKey}${finalKey}.`, depth + 1)
  }
  if (siblings.some(({ descriptor }) => descriptor.match !== undefined)) {
    for (const { source, path, problems } of validateMatches(siblings))
      report(findings, source, path, problems)
  }
  for (const { shorter, longer } of findConfusableKeys(siblings)) {
    const keys = `'${longer.descriptor.key}' and '${shorter.descriptor.key}'`
    const message = `requests of the keys ${keys} can spell the same cache key, and then count together`
    findings.warn(longer.source, longer.path, `${message}; see also ${shorter.source}, ${shorter.path}`)
  }
}

function checkDescriptor(context: Context, sibling: Sibling, finalKey: string): void {
  const { findings, names, spelling } = context
  const { source, path, descriptor } = sibling
  const { match, groupBy, rateLimit, limits, shareThreshold } = descriptor
  if (match !== undefined || groupBy !== undefined) {
    context.regexes += match?.regex === undefined ? 0 : 1
    // The time to validate each of them is bounded by their number.
    if (context.regexes <= maxRegexesOfDomain) report(findings, source, path, validateMatch(descriptor))
    else if (match?.regex !== undefined && context.regexes === maxRegexesOfDomain + 1) {
      const message = 'the domain has too many regular expressions'
      findings.problem(source, joinPath(path, 'match.regex'), message, `at most ${maxRegexesOfDomain}`)
    }
  }
  const unlikely =
    match === undefined ? describeUnlikelyValue(descriptor.key, descriptor.value, spelling) : undefined
  if (unlikely !== undefined) findings.warn(source, joinPath(path, 'value'), unlikely)
  if (rateLimit !== undefined) {
    checkRateLimit(context, source, joinPath(path, names.rateLimit), rateLimit)
  }
  if (limits !== undefined) checkLimits(context, sibling, limits)
  if (descriptor.quotaMode && rateLimit?.delivery === 'Quota') {
    const fieldPath = joinPath(path, `${names.rateLimit}.delivery`)
    findings.problem(source, fieldPath, 'delivery: Quota is not allowed with quotaMode', 'one of the two')
  }
  if (shareThreshold && match === undefined && !finalKey.includes('*')) {
    const rule = `share_threshold can only be used with wildcard values (containing '*')`
    const fieldPath = joinPath(path, names.shareThreshold)
    findings.problem(source, fieldPath, `${rule}, but found key '${finalKey}'`)
  }
}

function checkLimits(
  context: Context,
  { source, path, descriptor }: Sibling,
  limits: readonly RateLimitPolicy[],
): void {
  const { findings, names } = context
  const fieldPath = joinPath(path, 'limits')
  if (descriptor.rateLimit !== undefined) {
    findings.problem(source, fieldPath, `limits is not allowed beside ${names.rateLimit}`, 'one of the two')
  }
  report(findings, source, fieldPath, validateLimits(limits))
  for (const [index, limit] of limits.entries())
    checkRateLimit(context, source, `${fieldPath}[${index}]`, limit)
  const seen = new Set<string>()
  for (const [index, { name }] of limits.entries()) {
    if (name === '') continue
    const message = `the limits share the name '${name}', and therefore their statistics`
    if (seen.has(name)) findings.warn(source, `${fieldPath}[${index}].name`, message)
    seen.add(name)
  }
}

function report(findings: Findings, source: string, parent: string, problems: readonly LimitProblem[]): void {
  for (const { path, message, allowed } of problems) {
    const fieldPath = path === '' || path.startsWith('[') ? `${parent}${path}` : joinPath(parent, path)
    findings.problem(source, fieldPath, message, allowed)
  }
}

function checkRateLimit(context: Context, source: string, path: string, rateLimit: RateLimitPolicy): void {
  const { findings, names } = context
  const { unit, unlimited, requestsPerUnit, replaces, name } = rateLimit
  const unitPath = joinPath(path, 'unit')
  const known = parseUnit(unit) !== undefined
  const hasWindow = !unlimited && !isConcurrency(rateLimit)
  if (unlimited && known) {
    findings.problem(source, unitPath, 'should not specify rate limit unit when unlimited', 'no unit')
  }
  if (hasWindow && !known) {
    findings.problem(source, unitPath, `invalid rate limit unit '${unit}'`, `one of ${units.join(', ')}`)
  }
  const countPath = joinPath(path, names.requestsPerUnit)
  if (requestsPerUnit === undefined && hasWindow) {
    const message = `${names.requestsPerUnit} is left out, which counts as 0: every request is over the limit`
    findings.warn(source, countPath, message, `a whole number from 0 to ${maxRequestsPerUnit}`)
  } else if (requestsPerUnit !== undefined && !isRequestsPerUnit(requestsPerUnit)) {
    const message = `${names.requestsPerUnit} cannot be ${requestsPerUnit}`
    findings.problem(source, countPath, message, `a whole number from 0 to ${maxRequestsPerUnit}`)
  }
  report(findings, source, path, validateLimit(rateLimit))
  for (const [index, replaced] of replaces.entries()) {
    const fieldPath = `${joinPath(path, 'replaces')}[${index}].name`
    if (replaced === '') findings.problem(source, fieldPath, 'should not have an empty replaces entry')
    else if (replaced === name) {
      findings.problem(
        source,
        fieldPath,
        'replaces should not contain name of same descriptor',
        'another name',
      )
    }
  }
}
