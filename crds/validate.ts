import { nearestName } from '@tollway/chassis/nearest-name.ts'
import { describeAllowed, describeFound, joinFieldPath } from './describe.ts'
import { type ResourceKind, wholeResource } from './resource-kind.ts'
import { type Fields, isFields, type Schema, type SchemaProblem } from './schema.ts'

const maxProblems = 100

/** The largest number of levels of maps and lists in a field that allows any value. */
const maxFreeDepth = 64

export type Validated<Value> = { readonly value: Value } | { readonly problems: readonly SchemaProblem[] }

/**
 * Validates a value as an API server validates a resource under strict field validation: null counts as a
 * missing field, defaults are filled in, and an unknown field is a problem. Returns the value with its
 * defaults, or its problems: at most `maxProblems`, and then one with the number of the others.
 */
export function validateValue(schema: Schema, value: unknown, path = ''): Validated<unknown> {
  const problems: SchemaProblem[] = []
  let unlisted = 0
  const report: Report = (place, message) => {
    if (problems.length < maxProblems) problems.push({ path: place, message })
    else unlisted++
  }
  const judged = judge(schema, value, path, report)
  if (problems.length === 0) return { value: judged }
  if (unlisted > 0) problems.push({ path, message: `${unlisted} more problems, which are not listed` })
  return { problems }
}

/**
 * Validates a whole resource (apiVersion, kind, metadata, spec) as an API server with the definition of the
 * kind does when the resource is created: it compares no immutable field. Returns the spec with its defaults.
 */
export function validateResource<Spec>(kind: ResourceKind, resource: unknown): Validated<Spec> {
  const judged = validateValue(wholeResource(kind), resource)
  return 'problems' in judged ? judged : { value: (judged.value as { readonly spec: Spec }).spec }
}

type Report = (path: string, message: string) => void

function judge(schema: Schema, value: unknown, path: string, report: Report): unknown {
  switch (schema.type) {
    case 'object':
      return judgeObject(schema, value, path, report)
    case 'array':
      return judgeList(schema, value, path, report)
    case 'string':
      judgeString(schema, value, path, report)
      return value
    case 'integer':
      judgeInteger(schema, value, path, report)
      return value
    case 'boolean':
      if (typeof value !== 'boolean') reportType(schema, value, path, report)
      return value
    default:
      judgeFree(value, path, report, 1)
      return value
  }
}

function reportType(schema: Schema, value: unknown, path: string, report: Report): void {
  const found = describeFound(value)
  if (schema.enum !== undefined)
    report(path, `${found} is not ${describeAllowed(schema)}${nameHint(schema.enum, value)}`)
  else
    report(path, `${found} is not allowed; expected ${describeAllowed(schema)}${quotingHint(schema, value)}`)
}

function nameHint(names: readonly string[], value: unknown): string {
  const nearest = typeof value === 'string' && names.length > 1 ? nearestName(value, names) : undefined
  return nearest === undefined ? '' : `; did you mean ${nearest}?`
}

function quotingHint({ type }: Schema, value: unknown): string {
  if (typeof value === 'string') {
    const unquotable =
      type === 'boolean' ? /^(true|false)$/.test(value) : type === 'integer' && /^\d+$/.test(value)
    return unquotable ? ', without quotes' : ''
  }
  const quotable = type === 'string' && (typeof value === 'number' || typeof value === 'boolean')
  return quotable ? `, in quotes: "${String(value)}"` : ''
}

function judgeObject(schema: Schema, value: unknown, path: string, report: Report): unknown {
  if (!isFields(value)) {
    reportType(schema, value, path, report)
    return value
  }
  const written = Object.entries(value).filter(([, field]) => field !== undefined)
  if (schema.maxProperties !== undefined && written.length > schema.maxProperties) {
    report(path, `has ${written.length} fields; at most ${schema.maxProperties} are allowed`)
  }
  if (schema['x-kubernetes-preserve-unknown-fields'] && schema.properties === undefined) {
    judgeFree(value, path, report, 1)
    return value
  }
  const judged: [string, unknown][] = []
  for (const [name, field] of written) {
    const known = findProperty(schema, name)
    if (known === undefined) report(joinFieldPath(path, name), describeUnknown(schema, name))
    else if (field !== null) judged.push([name, judge(known, field, joinFieldPath(path, name), report)])
  }
  const present = new Map(written.filter(([, field]) => field !== null))
  for (const [name, known] of Object.entries(schema.properties ?? {})) {
    if (present.has(name)) continue
    // As in the API server, a default that is an object gets the defaults of its own fields.
    if (known.default !== undefined) {
      judged.push([name, judge(known, known.default, joinFieldPath(path, name), report)])
    } else if (schema.required?.includes(name)) {
      report(joinFieldPath(path, name), `is missing; expected ${describeAllowed(known)}`)
    }
  }
  const fields = Object.fromEntries(present)
  for (const rule of schema.rules ?? []) {
    for (const problem of rule(fields)) report(`${path}.${problem.path}`, problem.message)
  }
  return Object.fromEntries(judged)
}

function findProperty(schema: Schema, name: string): Schema | undefined {
  const { properties = {}, additionalProperties } = schema
  return Object.hasOwn(properties, name) ? properties[name] : additionalProperties
}

/**
 * Returns the message for an unknown field, with the field that was probably meant, here or one level below.
 */
function describeUnknown({ properties = {} }: Schema, written: string): string {
  const names = Object.keys(properties)
  const below = Object.entries(properties)
    .filter(([, { type, properties: fields = {} }]) => type === 'object' && Object.hasOwn(fields, written))
    .map(([name]) => `${name}.${written}`)
  const meant = below[0] ?? nearestName(written, names)
  const hint = meant === undefined ? 'allowed' : `did you mean ${meant}? Allowed`
  return `no such field; ${hint} here: ${names.join(', ')}`
}

function judgeList(schema: Schema, value: unknown, path: string, report: Report): unknown {
  if (!Array.isArray(value)) {
    reportType(schema, value, path, report)
    return value
  }
  const { items, minItems = 0, maxItems = Infinity, tooManyItems } = schema
  if (value.length > maxItems) {
    report(path, tooManyItems ?? `has ${value.length} items; at most ${maxItems} are allowed`)
    return value
  }
  if (value.length < minItems) {
    const found = value.length === 1 ? '1 item' : `${value.length} items`
    report(path, `has ${found}; expected ${describeAllowed(schema)}`)
  }
  const judged = value.map((item: unknown, index) =>
    items === undefined ? item : judge(items, item, `${path}[${index}]`, report),
  )
  if (schema['x-kubernetes-list-type'] === 'map') judgeUnique(schema, judged, path, report)
  return judged
}

/**
 * Reports items of a list that are equal in all map keys.
 *
 * @param items the items with their defaults filled in, which count like written values
 */
function judgeUnique(schema: Schema, items: readonly unknown[], path: string, report: Report): void {
  const keys = schema['x-kubernetes-list-map-keys'] ?? []
  const firsts = new Map<string, number>()
  for (const [index, item] of items.entries()) {
    if (!isFields(item) || !keys.every(key => typeof item[key] === 'string')) continue
    const identity = JSON.stringify(keys.map(key => item[key]))
    const first = firsts.get(identity)
    if (first === undefined) firsts.set(identity, index)
    else {
      const shown = keys.map(key => `${key} ${describeFound(item[key])}`).join(' and ')
      report(
        `${path}[${index}]`,
        `${shown} duplicate ${path}[${first}]; each ${keys.join(' and ')} may occur once in a list`,
      )
    }
  }
}

function judgeString(schema: Schema, value: unknown, path: string, report: Report): void {
  if (typeof value !== 'string' || schema.enum?.includes(value) === false) {
    reportType(schema, value, path, report)
    return
  }
  const { minLength = 0, maxLength = Infinity, pattern, form } = schema
  const length = countCharacters(value)
  if (length < minLength) {
    report(path, `${describeFound(value)} is too short; expected ${describeAllowed(schema)}`)
  }
  if (length > maxLength) {
    report(path, `${describeFound(value)} has ${length} characters; expected ${describeAllowed(schema)}`)
  }
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value)) {
    const why = form === undefined ? `does not have the form ${pattern}` : `is not allowed; expected ${form}`
    report(path, `${describeFound(value)} ${why}`)
  }
}

function countCharacters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

function judgeInteger(schema: Schema, value: unknown, path: string, report: Report): void {
  const { minimum = -Infinity, maximum = Infinity } = schema
  const fits = typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum
  if (!fits) reportType(schema, value, path, report)
}

/** Judges a field that allows any value: it must be JSON, with at most `maxFreeDepth` levels. */
function judgeFree(value: unknown, path: string, report: Report, depth: number): void {
  if (depth > maxFreeDepth) {
    report(path, `is nested more than ${maxFreeDepth} levels deep`)
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) judgeFree(item, `${path}[${index}]`, report, depth + 1)
  } else if (isFields(value)) {
    judgeFreeFields(value, path, report, depth)
  } else if (!isJsonScalar(value)) {
    report(path, `${describeFound(value)} is not allowed; expected a value that JSON has`)
  }
}

function judgeFreeFields(fields: Fields, path: string, report: Report, depth: number): void {
  for (const [name, field] of Object.entries(fields)) {
    judgeFree(field, joinFieldPath(path, name), report, depth + 1)
  }
}

function isJsonScalar(value: unknown): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  return typeof value === 'number' && Number.isFinite(value)
}
