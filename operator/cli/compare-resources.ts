import { systemClock } from '@tollway/chassis/clock.ts'
import { isObject } from '@tollway/chassis/is-object.ts'
import { listNames, matchFields } from '@tollway/ratelimit/rules/fields.ts'
import {
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
  toFinalKey,
} from '@tollway/ratelimit/rules/model.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { isOurs } from '../kinds/registry.ts'
import { pausedAnnotation, rotationAnnotation, type SourcedResource } from '../kinds/source.ts'
import type { FolderContent } from './read-folder.ts'
import { type Diagnostic, formatDiagnostic, validateFolder } from './validate-folder.ts'

interface Differences {
  readonly resources: readonly ResourceDifference[]
  readonly rules: readonly RuleDifference[]
  /** The errors and warnings that the change would add, such as a domain of another resource. */
  readonly problems: readonly Diagnostic[]
}

interface ResourceDifference {
  readonly change: 'create' | 'change' | 'delete'
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly fields: readonly FieldDifference[]
}

export interface DiffTarget {
  readonly content: FolderContent
  /**
   * Resolves with the spec as it would be stored, with defaults. Rejects if the resource would be rejected.
   */
  completeSpec(wanted: SourcedResource, current: SourcedResource | undefined): Promise<unknown>
  /** Resolves with `content` that has these resources instead. */
  withResources(resources: readonly SourcedResource[]): Promise<FolderContent>
}

const keyOf = ({ kind, namespace, name }: SourcedResource) => `${kind} ${namespace}/${name}`

/** @param prune whether resources that the folder lacks count as deleted, in the namespaces of the folder */
export async function compareResources(
  target: DiffTarget,
  folder: Pick<FolderContent, 'resources' | 'problems'>,
  prune: boolean,
): Promise<Differences> {
  const current = new Map(target.content.resources.map(resource => [keyOf(resource), resource]))
  const wanted = new Map<string, SourcedResource>()
  const youngestMs = systemClock.nowMs() + maxComparisonMs
  for (const resource of folder.resources) {
    const before = current.get(keyOf(resource))
    const spec = isOurs(resource) ? await target.completeSpec(resource, before) : resource.spec
    // The oldest of the resources with one domain gets it. A new resource is the youngest.
    const age = before === undefined ? { createdMs: youngestMs } : copyAge(before)
    wanted.set(keyOf(resource), { ...resource, ...age, spec })
  }
  const namespaces = new Set(folder.resources.filter(isOurs).map(({ namespace }) => namespace))
  const isPruned = (resource: SourcedResource) =>
    prune && isOurs(resource) && namespaces.has(resource.namespace) && !wanted.has(keyOf(resource))
  const kept = [...current.values()].filter(resource => !isPruned(resource) && !wanted.has(keyOf(resource)))
  const after = await target.withResources([...kept, ...wanted.values()])
  const validBefore = await validateFolder(target.content)
  const validAfter = await validateFolder(after)
  const known = new Set(validBefore.diagnostics.map(describeDiagnostic))
  return {
    resources: [
      ...[...wanted.values()].filter(isOurs).flatMap(one => compareResource(current.get(keyOf(one)), one)),
      ...[...current.values()]
        .filter(isPruned)
        .map(one => ({ change: 'delete', ...identify(one), fields: [] }) as const),
    ],
    rules: compareRules(validBefore.domains, validAfter.domains),
    problems: [
      ...folder.problems.map(one => ({ severity: 'error', resource: '', path: '', ...one }) as const),
      ...validAfter.diagnostics.filter(diagnostic => !known.has(describeDiagnostic(diagnostic))),
    ],
  }
}

/**
 * Resources of unknown age count as created during the comparison, and new ones as created this much later.
 */
const maxComparisonMs = 3_600_000

const copyAge = ({ uid, createdMs }: SourcedResource) => ({
  uid,
  ...(createdMs !== undefined && { createdMs }),
})

const describeDiagnostic = ({ resource, path, message }: Diagnostic) => `${resource} ${path} ${message}`
const identify = ({ kind, namespace, name }: SourcedResource) => ({ kind, namespace, name })

function compareResource(
  before: SourcedResource | undefined,
  after: SourcedResource,
): readonly ResourceDifference[] {
  const fields = before === undefined ? [] : compareFields(before, after)
  if (before === undefined) return [{ change: 'create', ...identify(after), fields }]
  return fields.length === 0 ? [] : [{ change: 'change', ...identify(after), fields }]
}

const toAnnotations = ({ paused, rotation }: SourcedResource) => ({
  ...(paused && { [pausedAnnotation]: 'true' }),
  ...(rotation !== undefined && { [rotationAnnotation]: rotation }),
})

function compareFields(before: SourcedResource, after: SourcedResource): readonly FieldDifference[] {
  return [
    ...compareValues(toAnnotations(before), toAnnotations(after), 'metadata.annotations'),
    ...compareValues(before.spec, after.spec, 'spec'),
  ]
}

const signs = { create: '+', change: '~', delete: '-' } as const
const verbs = { create: 'is created', change: 'changes', delete: 'is deleted' } as const

export function describeDifferences({ resources, rules, problems }: Differences): string {
  const ofResources = resources.flatMap(({ change, kind, namespace, name, fields }) => [
    `${signs[change]} ${kind} ${namespace}/${name} ${verbs[change]}`,
    ...fields.map(({ path, ...sides }) => `    ${path}: ${describeSides(sides, show)}`),
  ])
  const ofRules = rules.map(({ rule, ...sides }) => `  ${rule}: ${describeSides(sides, text => `${text}`)}`)
  const lines = [...ofResources, ...(ofRules.length > 0 ? ['', 'Rules:', ...ofRules] : [])]
  const shown = lines.map(line => `${escapeControls(line)}\n`).join('')
  return problems.length === 0
    ? shown
    : `${shown}\nProblems:\n${problems.map(one => `  ${formatDiagnostic(one)}`).join('')}`
}

interface Sides {
  readonly before?: unknown
  readonly after?: unknown
}

function describeSides({ before, after }: Sides, show: (value: unknown) => string): string {
  if (before === undefined) return `added, ${show(after)}`
  return after === undefined ? `removed, was ${show(before)}` : `${show(before)} -> ${show(after)}`
}

const show = (value: unknown) => JSON.stringify(value)

/** `before` or `after` is undefined if the field is missing on that side. */
interface FieldDifference {
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}

/**
 * Elements of two lists are matched by `key` and `value`, or by `name`, if these identify them, and otherwise
 * by position.
 */
export function compareValues(before: unknown, after: unknown, path: string): readonly FieldDifference[] {
  if (isObject(before) && isObject(after)) return compareEntries(before, after, name => `${path}.${name}`)
  if (Array.isArray(before) && Array.isArray(after)) {
    const [left, right] = [nameElements(before), nameElements(after)]
    const byName = left !== undefined && right !== undefined
    const entries = (list: readonly unknown[], names: readonly string[] | undefined) =>
      Object.fromEntries(list.map((element, index) => [`[${byName ? names?.[index] : index}]`, element]))
    return compareEntries(entries(before, left), entries(after, right), name => `${path}${name}`)
  }
  if (before === after) return []
  return [{ path, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }]
}

function compareEntries(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  pathOf: (name: string) => string,
): readonly FieldDifference[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const readSide = (side: typeof before, name: string) => (Object.hasOwn(side, name) ? side[name] : undefined)
  return names.flatMap(name => compareValues(readSide(before, name), readSide(after, name), pathOf(name)))
}

function nameElements(list: readonly unknown[]): readonly string[] | undefined {
  const names = list.map(element => {
    if (!isObject(element)) return undefined
    const { key, value, name } = element
    if (typeof key === 'string') return typeof value === 'string' && value !== '' ? `${key}=${value}` : key
    return typeof name === 'string' ? name : undefined
  })
  const found = names.filter(name => name !== undefined)
  return found.length === list.length && new Set(found).size === list.length ? found : undefined
}

/** `before` or `after` is undefined if the rule is missing on that side. */
interface RuleDifference {
  /** The name of the rule, such as `checkout.user`. */
  readonly rule: string
  /** The limit, such as `3/minute`. */
  readonly before?: string
  readonly after?: string
}

function compareRules(
  before: readonly RateLimitDomain[],
  after: readonly RateLimitDomain[],
): readonly RuleDifference[] {
  const [left, right] = [describeLimits(before), describeLimits(after)]
  const names = [...new Set([...left.keys(), ...right.keys()])].sort()
  return names.flatMap(rule => {
    const [old, now] = [left.get(rule), right.get(rule)]
    if (old === now) return []
    return [{ rule, ...(old !== undefined && { before: old }), ...(now !== undefined && { after: now }) }]
  })
}

function describeLimits(domains: readonly RateLimitDomain[]): ReadonlyMap<string, string> {
  const limits = new Map<string, string>()
  const visit = (parent: string, rules: readonly RateLimitRule[]) => {
    for (const rule of rules) {
      const name = `${parent}.${toFinalKey(rule)}`
      limits.set(name, describeRule(rule))
      visit(name, rule.descriptors)
    }
  }
  for (const { domain, descriptors } of domains) visit(domain, descriptors)
  return limits
}

function describeRule(rule: RateLimitRule): string {
  const { rateLimit, limits = rateLimit === undefined ? [] : [rateLimit] } = rule
  const shown = limits.length === 0 ? 'no limit' : limits.map(describePolicy).join(' and ')
  const modes = flags.filter(name => rule[name]).map(name => `, ${name}`)
  const matching = listNames(matchFields).flatMap(name =>
    rule[name] === undefined ? [] : [`, ${name}=${JSON.stringify(rule[name])}`],
  )
  return `${shown}${matching.join('')}${modes.join('')}`
}

const flags = ['shadowMode', 'quotaMode', 'shareThreshold', 'detailedMetric', 'valueToMetric'] as const

function describePolicy({
  unit,
  requestsPerUnit = 0,
  unlimited,
  unitMultiplier,
  ...rest
}: RateLimitPolicy): string {
  const units = `${unitMultiplier === undefined ? '' : `${unitMultiplier} `}${unit.toLowerCase()}`
  const limit = unlimited ? 'unlimited' : `${requestsPerUnit}/${units}`
  const others = Object.entries(rest).flatMap(([name, value]) => {
    const isGiven = value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)
    return isGiven ? [` ${name}=${typeof value === 'object' ? JSON.stringify(value) : value}`] : []
  })
  return `${limit}${others.join('')}`
}
