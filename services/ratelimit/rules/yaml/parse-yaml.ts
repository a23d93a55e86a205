import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { isList } from '@tollway/chassis/json.ts'
import { listNames, maxRequestsPerUnit, ruleFlags, toRuleFlags } from '../fields.ts'
import {
  type ConfigProblem,
  isRequestsPerUnit,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
} from '../model.ts'
import { createFindings, type Findings, joinPath } from '../problems.ts'
import { type ValidateOptions, validateDomains } from '../validate.ts'
import { isMap, parseYamlDocument, type YamlMap, type YamlValue } from './yaml-document.ts'

/**
 * Parses a configuration file. Every problem has `name` as its source. As in envoyproxy/ratelimit, the text
 * is checked in two steps, each with its messages: first every key at any depth must be a known one, then
 * each field must have its type. All problems are reported, not only the first. `validateParsed` checks the
 * meaning.
 *
 * As in envoyproxy/ratelimit, a number or a boolean in a text field is accepted as written (`value: 5` is
 * "5"), and null is the same as leaving a field out. A known key in a place where it has no meaning is
 * accepted with a warning.
 */
export function parseYaml(name: string, text: string): ParsedYaml {
  const findings = createFindings()
  const read = parseYamlDocument(text)
  if ('error' in read) {
    findings.problem(name, '', `${loadError}${read.error}`)
    return { problems: findings.problems }
  }
  if (read.ignored > 0) {
    findings.warn(name, '', `only the first document is read; ${read.ignored} more follow`)
  }
  const root = read.document ?? emptyMap
  const context: Context = { source: name, findings, reported: new Set() }
  if (!isMap(root)) report(context, '', `${loadError}the document cannot be ${formatValue(root)}`, 'a map')
  else checkKeys(context, root, '')
  const { problems, warnings } = findings
  if (findings.isFull()) return { problems }
  const value = decodeDomain(context, isMap(root) ? root : emptyMap)
  if (problems.length === 0) return { value, warnings }
  return { problems, partial: { value, reported: context.reported } }
}

export type ParsedYaml =
  | { readonly value: RateLimitDomain; readonly warnings: readonly ConfigProblem[] }
  | { readonly problems: readonly ConfigProblem[]; readonly partial?: PartialDomain }

/** What could be read of a file with problems; a field that could not be read has its default. */
interface PartialDomain {
  readonly value: RateLimitDomain
  /** The paths of the problems. */
  readonly reported: ReadonlySet<string>
}

/**
 * Validates parsed files together. Files with problems are included as far as they could be read, so that all
 * mistakes of a rule are reported at once. A finding that only follows from what could not be read is left
 * out.
 */
export function validateParsed(parsed: readonly ParsedYaml[], options: ValidateOptions) {
  const partials = parsed.flatMap(one => ('partial' in one && one.partial ? [one.partial] : []))
  const bySource = new Map(partials.map(partial => [partial.value.name, partial]))
  const isOwn = (finding: ConfigProblem) => {
    const partial = bySource.get(finding.source)
    return partial === undefined || !followsFrom(partial, finding.path)
  }
  const whole = parsed.flatMap(one => ('value' in one ? [one.value] : []))
  const judged = validateDomains([...whole, ...partials.map(({ value }) => value)], options)
  return {
    problems: [
      ...parsed.flatMap(one => ('problems' in one ? one.problems : [])),
      ...judged.problems.filter(isOwn),
    ],
    warnings: [
      ...parsed.flatMap(one => ('value' in one ? one.warnings : [])),
      ...judged.warnings.filter(isOwn),
    ],
  }
}

/**
 * Returns whether a finding may follow from a reported problem: the field, or what contains it, could not be
 * read, or the field is missing and a key beside it was reported, which may be the same field misspelled.
 */
function followsFrom({ value, reported }: PartialDomain, path: string): boolean {
  for (let fieldPath = path; ; fieldPath = findParent(fieldPath)) {
    if (reported.has(fieldPath)) return true
    if (fieldPath === '') break
  }
  const parents = new Set([...reported].map(findParent))
  return parents.has(path) || (parents.has(findParent(path)) && isAbsent(value, path))
}

/**
 * Returns the path of what contains a field: `descriptors[0].rate_limit` for
 * `descriptors[0].rate_limit.unit`.
 */
const findParent = (path: string) => path.replace(/(?:^|\.)[^.[\]]+$|\[\d+\]$/, '')

function isAbsent(domain: RateLimitDomain, path: string): boolean {
  let found: unknown = domain
  for (const name of path.split(/[.[\]]+/).filter(part => part !== '')) {
    const field = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
    found = (found as Readonly<Record<string, unknown>> | undefined)?.[field]
  }
  return found === undefined || found === ''
}

const loadError = 'error loading config file: yaml: '
const emptyMap: YamlMap = new Map()

const domainKeys = ['domain', 'descriptors']
const descriptorKeys = [
  'key',
  'value',
  'rate_limit',
  'descriptors',
  ...listNames(ruleFlags).map(toSnakeCase),
  'metadata',
]
const rateLimitKeys = ['unit', 'requests_per_unit', 'unlimited', 'name', 'replaces']
const replacesKeys = ['name']
const legalKeys = new Set([...domainKeys, ...descriptorKeys, ...rateLimitKeys])
const allowedKeys = `one of ${[...legalKeys].join(', ')}`

function toSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

interface Context {
  readonly source: string
  readonly findings: Findings
  /** The paths that already have a problem, which the second step does not report again. */
  readonly reported: Set<string>
}

function report(
  { source, findings, reported }: Context,
  path: string,
  message: string,
  allowed?: string,
): void {
  if (reported.has(path)) return
  reported.add(path)
  findings.problem(source, path, message, allowed)
}

/**
 * The first step of `parseYaml`: checks keys and types of values at any depth. Everything below `metadata` is
 * free-form.
 */
function checkKeys(context: Context, map: YamlMap, path: string): void {
  for (const [key, value] of map) {
    if (context.findings.isFull()) return
    if (typeof key !== 'string') {
      const fieldPath = joinPath(path, formatValue(key))
      report(context, fieldPath, `config error, key is not of type string: ${formatPlain(key)}`)
    } else if (!legalKeys.has(key)) {
      report(context, joinPath(path, key), `config error, unknown key '${key}'`, allowedKeys)
    } else if (key !== 'metadata') {
      checkValue(context, value, joinPath(path, key))
    }
  }
}

function checkValue(context: Context, value: YamlValue, path: string): void {
  if (isMap(value)) checkKeys(context, value, path)
  else if (isList(value)) {
    for (const [index, item] of value.entries()) {
      if (context.findings.isFull()) return
      const fieldPath = `${path}[${index}]`
      if (isMap(item)) checkKeys(context, item, fieldPath)
      else {
        const message = `config error, yaml file contains list of type other than map: ${formatPlain(item)}`
        report(context, fieldPath, message, 'a map')
      }
    }
  } else if (value !== null && typeof value !== 'string' && value.type === 'float') {
    report(
      context,
      path,
      'error checking config',
      `a text, such as "${value.text}", a whole number or a boolean`,
    )
  }
}

function decodeDomain(context: Context, map: YamlMap): RateLimitDomain {
  const fields = readFields(context, map, '', domainKeys)
  return {
    name: context.source,
    domain: fields.text('domain'),
    descriptors: fields.maps('descriptors', (item, path) => decodeDescriptor(context, item, path)),
  }
}

function decodeDescriptor(context: Context, map: YamlMap, path: string): RateLimitRule {
  const fields = readFields(context, map, path, descriptorKeys)
  const rateLimit = fields.map('rate_limit')
  const metadata = map.get('metadata') ?? null
  return {
    key: fields.text('key'),
    value: fields.text('value'),
    ...(rateLimit && { rateLimit: decodeRateLimit(context, rateLimit, joinPath(path, 'rate_limit')) }),
    ...toRuleFlags(name => fields.boolean(toSnakeCase(name))),
    ...(metadata !== null && { metadata: decodeMetadata(context, metadata, joinPath(path, 'metadata')) }),
    descriptors: fields.maps('descriptors', (item, fieldPath) => decodeDescriptor(context, item, fieldPath)),
  }
}

function decodeRateLimit(context: Context, map: YamlMap, path: string): RateLimitPolicy {
  const fields = readFields(context, map, path, rateLimitKeys)
  return {
    unit: fields.text('unit'),
    requestsPerUnit: fields.count('requests_per_unit'),
    unlimited: fields.boolean('unlimited'),
    name: fields.text('name'),
    replaces: fields.maps('replaces', (item, fieldPath) =>
      readFields(context, item, fieldPath, replacesKeys).text('name'),
    ),
  }
}

/** The fields of one map. Each method returns the default of a field that is missing, null or invalid. */
interface Fields {
  text(field: string): string
  boolean(field: string): boolean
  /** An integer from 0 to 2^32-1; undefined when left out. */
  count(field: string): number | undefined
  map(field: string): YamlMap | undefined
  /** Decodes each map of a list. */
  maps<T>(field: string, decode: (item: YamlMap, path: string) => T): readonly T[]
}

function readFields(context: Context, map: YamlMap, path: string, known: readonly string[]): Fields {
  for (const key of map.keys()) {
    if (typeof key !== 'string' || known.includes(key) || !legalKeys.has(key)) continue
    const allowed = `here one of ${known.join(', ')}`
    context.findings.warn(context.source, joinPath(path, key), `'${key}' has no meaning here`, allowed)
  }
  const find = (field: string) => map.get(field) ?? null
  const reject = (field: string, found: YamlValue, allowed: string) =>
    report(context, joinPath(path, field), `${loadError}${field} cannot be ${formatValue(found)}`, allowed)
  return {
    text(field) {
      const found = find(field)
      if (found === null || typeof found === 'string') return found ?? ''
      if (!isMap(found) && !isList(found)) return found.text
      reject(field, found, 'a text')
      return ''
    },
    boolean(field) {
      const found = find(field)
      const value = readBoolean(found)
      if (value === undefined) reject(field, found, 'true or false')
      else if (typeof found === 'string') {
        const message = `'${found}' is read as ${value}, as in YAML 1.1`
        context.findings.warn(context.source, joinPath(path, field), message, 'true or false')
      }
      return value ?? false
    },
    count(field) {
      const found = find(field)
      if (found === null) return undefined
      const value = readScalar(found)
      if (isRequestsPerUnit(value)) return value
      reject(field, found, `a whole number from 0 to ${maxRequestsPerUnit}`)
      return undefined
    },
    map(field) {
      const found = find(field)
      if (found === null || isMap(found)) return found ?? undefined
      reject(field, found, 'a map')
      return undefined
    },
    maps(field, decode) {
      const found = find(field)
      if (found === null) return []
      if (!isList(found)) reject(field, found, 'a list of maps')
      const items = isList(found) ? found : []
      return items.map((item, index) => {
        const fieldPath = `${joinPath(path, field)}[${index}]`
        return decode(isMap(item) ? item : emptyMap, fieldPath)
      })
    },
  }
}

function readScalar(value: YamlValue): string | number | boolean | undefined {
  if (value === null || isMap(value) || isList(value)) return undefined
  return typeof value === 'string' ? value : value.value
}

/**
 * Returns a boolean, also for the words of YAML 1.1 (`yes`, `off` and so on), as envoyproxy/ratelimit does.
 * Null is false; undefined for any other value.
 */
function readBoolean(found: YamlValue): boolean | undefined {
  if (found === null) return false
  const value = readScalar(found)
  if (typeof value === 'boolean') return value
  if (typeof value !== 'string') return undefined
  if (/^(?:y|Y|yes|Yes|YES|on|On|ON)$/.test(value)) return true
  return /^(?:n|N|no|No|NO|off|Off|OFF)$/.test(value) ? false : undefined
}

function decodeMetadata(context: Context, metadata: YamlValue, path: string): JsonObject {
  if (isMap(metadata)) return decodeObject(context, metadata, path)
  report(context, path, `error parsing metadata: it cannot be ${formatValue(metadata)}`, 'a map')
  return {}
}

function decodeObject(context: Context, map: YamlMap, path: string): JsonObject {
  const members = [...map].map(([key, item]): [string, Json] => {
    const fieldPath = joinPath(path, formatValue(key))
    if (typeof key === 'string') return [key, decodeJson(context, item, joinPath(path, key))]
    report(context, fieldPath, `error parsing metadata: key is not of type string: ${formatPlain(key)}`)
    return ['', null]
  })
  return Object.fromEntries(members)
}

function decodeJson(context: Context, value: YamlValue, path: string): Json {
  if (value === null || typeof value === 'string') return value
  if (isMap(value)) return decodeObject(context, value, path)
  if (isList(value)) return value.map((item, index) => decodeJson(context, item, `${path}[${index}]`))
  if (typeof value.value === 'boolean' || Number.isFinite(value.value)) return value.value
  report(context, path, `error parsing metadata: ${value.text} is not a number of JSON`)
  return null
}

/** Formats a value for messages: a text in quotes, and a list or a map by its kind only. */
function formatValue(value: YamlValue): string {
  if (value === null) return 'null'
  if (isMap(value)) return 'a map'
  if (isList(value)) return 'a list'
  return typeof value === 'string' ? `'${value}'` : value.text
}

/** Formats a value as envoyproxy/ratelimit does in messages that do not quote it. */
function formatPlain(value: YamlValue): string {
  if (typeof value === 'string') return value
  if (isList(value)) return `[${value.slice(0, 10).map(formatPlain).join(' ')}]`
  return value === null ? '<nil>' : formatValue(value)
}
