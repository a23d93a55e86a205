import { isList } from '@tollway/chassis/json.ts'
import type { ConfigProblem } from '../../rules/model.ts'
import { createFindings, type Findings, joinPath } from '../../rules/problems.ts'
import { isMap, parseYamlDocument, type YamlMap, type YamlValue } from '../../rules/yaml/yaml-document.ts'
import { defaultBuckets, globPattern, type Mapping, type MetricKind } from './mapping.ts'
import { compilePattern, maxPatternCharacters } from './pattern.ts'

/** A file may have at most this many mappings, because every new statistic is tried against each of them. */
const maxMappings = 1000
const maxBuckets = 100
const maxLabels = 32

/**
 * Parses a mapping file in the format of statsd_exporter. Every problem has `name` as its source, and all
 * problems are reported. As in statsd_exporter, globs come before regular expressions in any order of the
 * file, and regular expressions are not anchored. Unlike in statsd_exporter, timers are histograms by default
 * (other types are rejected: summaries are not supported), and an unknown key is a problem. A field without
 * effect here, such as `ttl`, is a warning.
 */
export function parseMappingFile(
  name: string,
  text: string,
):
  | { readonly value: readonly Mapping[]; readonly warnings: readonly ConfigProblem[] }
  | { readonly problems: readonly ConfigProblem[] } {
  const findings = createFindings()
  const read = parseYamlDocument(text)
  if ('error' in read) findings.problem(name, '', read.error)
  const document = 'error' in read ? null : read.document
  const file = readFields({ findings, source: name, path: '', value: document }, ['defaults', 'mappings'])
  const defaults = readDefaults(file.below('defaults'))
  const mappings = file.list('mappings', maxMappings, item => {
    const fields = readFields(item, mappingKeys)
    // An item that is not a map has been reported. It must not cause further problems for missing fields.
    return isMap(item.value) ? [readMapping(fields, defaults)] : []
  })
  const { problems, warnings } = findings
  if (problems.length > 0) return { problems }
  const globs = mappings.filter(({ glob }) => glob)
  const patterns = mappings.filter(({ glob }) => !glob)
  return { value: [...globs, ...patterns].map(({ mapping }) => mapping), warnings }
}

interface Defaults {
  readonly matchType: MatchType
  readonly buckets: readonly number[]
}

const matchTypes = ['glob', 'regex'] as const
type MatchType = (typeof matchTypes)[number]

/** The keys that say how timers are reported. `timer_type` is the older name of `observer_type`. */
const timerKeys = [
  'observer_type',
  'timer_type',
  'buckets',
  'histogram_options',
  'quantiles',
  'summary_options',
]
const defaultsKeys = ['match_type', 'glob_disable_ordering', 'ttl', ...timerKeys]
const mappingKeys = [
  'match',
  'match_type',
  'match_metric_type',
  'action',
  'name',
  'help',
  'labels',
  'scale',
  'ttl',
  'honor_labels',
  ...timerKeys,
]

function readDefaults(section: YamlField): Defaults {
  const fields = readFields(section, defaultsKeys)
  fields.warnUnless('ttl', ['0', '0s'], 'series are never removed')
  fields.warnUnless('glob_disable_ordering', ['false'], 'globs are tried in order')
  return {
    matchType: fields.word('match_type', matchTypes) ?? 'glob',
    buckets: readBuckets(fields) ?? defaultBuckets,
  }
}

function readMapping(
  fields: Fields,
  defaults: Defaults,
): { readonly mapping: Mapping; readonly glob: boolean } {
  const drop = fields.word('action', ['map', 'drop']) === 'drop'
  const matchType = fields.word('match_type', matchTypes) ?? defaults.matchType
  const kind = fields.word('match_metric_type', ['counter', 'gauge', 'observer', 'timer'])
  fields.warnUnless('ttl', ['0', '0s'], 'series are never removed')
  fields.warnUnless('honor_labels', ['false'], 'the labels of a mapping win over EXTRA_TAGS')
  const { pattern, groups } = readMatch(fields, matchType)
  const mapping: Mapping = {
    pattern,
    ...(kind !== undefined && { kind: metricKind(kind) }),
    drop,
    name: readName(fields, drop, groups),
    labels: readLabels(fields, groups),
    help: fields.text('help'),
    buckets: readBuckets(fields) ?? defaults.buckets,
    scale: fields.number('scale') ?? 1,
  }
  return { mapping, glob: matchType === 'glob' }
}

function metricKind(word: 'counter' | 'gauge' | 'observer' | 'timer'): MetricKind {
  return word === 'observer' ? 'timer' : word
}

function readMatch(
  fields: Fields,
  matchType: MatchType,
): { readonly pattern: RegExp; readonly groups: number } {
  const text = fields.text('match')
  const nothing = { pattern: /(?!)/, groups: 0 }
  if (text === '') {
    fields.problem('match', 'is missing', 'a glob or a regular expression')
    return nothing
  }
  if (matchType === 'regex') {
    const compiled = compilePattern(text)
    if ('pattern' in compiled) return compiled
    fields.problem(
      'match',
      `'${text}': ${compiled.error}`,
      'a regular expression without look-ahead and back-references',
    )
    return nothing
  }
  const parts = text.split('.')
  if (
    text.length > maxPatternCharacters ||
    parts.some(part => part === '' || (part !== '*' && part.includes('*')))
  ) {
    const allowed = `parts between dots, each a text or *; at most ${maxPatternCharacters} characters`
    fields.problem('match', `'${text}' is not a glob`, allowed)
    return nothing
  }
  return { pattern: globPattern(text), groups: parts.filter(part => part === '*').length }
}

function readName(fields: Fields, drop: boolean, groups: number): string {
  const name = fields.text('name')
  if (drop) return name
  if (!/^(?:[a-zA-Z_]|\$\{?\d+\}?)(?:[a-zA-Z0-9_]|\$\{?\d+\}?)*$/.test(name)) {
    fields.problem(
      'name',
      `'${name}' is not the name of a metric`,
      'letters, digits and _, no digit first, and $1, $2, …',
    )
  }
  checkReferences(fields, 'name', name, groups)
  return name
}

function readLabels(fields: Fields, groups: number): ReadonlyMap<string, string> {
  const labels = fields.texts('labels')
  if (labels.size > maxLabels) fields.problem('labels', `has ${labels.size} labels`, `at most ${maxLabels}`)
  for (const [label, template] of labels) {
    const field = `labels.${label}`
    if (!/^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/.test(label) || label === 'le') {
      const allowed = 'letters, digits and _, no digit and no __ first, and not le'
      fields.problem(field, `'${label}' is not the name of a label`, allowed)
    }
    checkReferences(fields, field, template, groups)
  }
  return labels
}

function checkReferences(fields: Fields, field: string, template: string, groups: number): void {
  for (const [reference, braced, bare] of template.matchAll(/\$(?:\{(\d+)\}|(\d+))/g)) {
    if (Number(braced ?? bare) <= groups) continue
    fields.warn(field, `${reference} is always empty: the match has no such group`, `$1 to $${groups}`)
  }
}

function readBuckets(fields: Fields): readonly number[] | undefined {
  fields.word('observer_type', ['histogram'])
  fields.word('timer_type', ['histogram'])
  for (const field of ['quantiles', 'summary_options']) {
    if (fields.has(field)) fields.problem(field, 'summaries are not supported', 'a histogram with buckets')
  }
  const options = readFields(fields.below('histogram_options'), ['buckets'])
  return readBounds(fields) ?? readBounds(options)
}

function readBounds(fields: Fields): readonly number[] | undefined {
  const bounds = fields.numbers('buckets')
  if (bounds === undefined || bounds.length === 0) return undefined
  const ascending = bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? bound))
  if (ascending && bounds.length <= maxBuckets) return bounds
  fields.problem('buckets', `[${bounds.join(', ')}]`, `ascending numbers, at most ${maxBuckets}`)
  return undefined
}

interface YamlField {
  readonly findings: Findings
  readonly source: string
  readonly path: string
  readonly value: YamlValue
}

/** The fields of one map. A missing or invalid field is treated as left out; an invalid one is reported. */
interface Fields {
  has(field: string): boolean
  /** Returns a text, or a number or a boolean as it is written. Empty if the field is left out. */
  text(field: string): string
  number(field: string): number | undefined
  numbers(field: string): readonly number[] | undefined
  word<const Word extends string>(field: string, words: readonly Word[]): Word | undefined
  /** Returns a map of texts; empty if the field is left out. */
  texts(field: string): ReadonlyMap<string, string>
  below(field: string): YamlField
  /** Returns what `read` returns for the items of a list. More than `max` items are a problem. */
  list<T>(field: string, max: number, read: (item: YamlField) => readonly T[]): readonly T[]
  problem(field: string, message: string, allowed: string): void
  warn(field: string, message: string, allowed: string): void
  /** Warns that a field has no effect, unless it is left out or has one of these values. */
  warnUnless(field: string, written: readonly string[], message: string): void
}

/** Reads a map and reports unknown keys. Null is an empty map. */
function readFields(found: YamlField, known: readonly string[]): Fields {
  const map = readMap(found)
  for (const key of map.keys()) {
    if (typeof key === 'string' && known.includes(key)) continue
    problemAt(below(found, map, formatValue(key)), 'unknown key', `one of ${known.join(', ')}`)
  }
  const at = (field: string) => below(found, map, field)
  const readTextAt = (field: string) => readText(at(field)) ?? ''
  return {
    has: field => at(field).value !== null,
    text: readTextAt,
    number: field => readNumber(at(field)),
    numbers: field => readNumbers(at(field)),
    word(field, words) {
      const text = readTextAt(field)
      const word = words.find(each => each === text)
      if (word === undefined && text !== '') {
        problemAt(at(field), `'${text}' is not supported`, words.join(', '))
      }
      return word
    },
    texts(field) {
      const texts = readMap(at(field))
      const items = [...texts.keys()].map(formatValue)
      return new Map(items.map(key => [key, readText(below(at(field), texts, key)) ?? '']))
    },
    below: at,
    list: (field, max, read) => readItems(at(field), max).flatMap(read),
    problem: (field, message, allowed) => problemAt(at(field), message, allowed),
    warn: (field, message, allowed) => warnAt(at(field), message, allowed),
    warnUnless(field, written, message) {
      const text = readTextAt(field)
      if (text === '' || written.includes(text)) return
      warnAt(at(field), `has no effect: ${message}`, written.join(', '))
    },
  }
}

function below(found: YamlField, map: YamlMap, field: string): YamlField {
  return { ...found, path: joinPath(found.path, field), value: map.get(field) ?? null }
}

function problemAt({ findings, source, path }: YamlField, message: string, allowed: string): void {
  findings.problem(source, path, message, allowed)
}

function warnAt({ findings, source, path }: YamlField, message: string, allowed: string): void {
  findings.warn(source, path, message, allowed)
}

function reject(found: YamlField, allowed: string): undefined {
  problemAt(found, `cannot be ${formatValue(found.value)}`, allowed)
  return undefined
}

function readMap(found: YamlField): YamlMap {
  if (isMap(found.value)) return found.value
  if (found.value !== null) reject(found, 'a map')
  return new Map()
}

function readText(found: YamlField): string | undefined {
  const { value } = found
  if (value === null || typeof value === 'string') return value ?? undefined
  return isMap(value) || isList(value) ? reject(found, 'a text') : value.text
}

function readNumber(found: YamlField): number | undefined {
  if (found.value === null) return undefined
  return toNumber(found.value) ?? reject(found, 'a number')
}

function readNumbers(found: YamlField): readonly number[] | undefined {
  const { value } = found
  if (value === null) return undefined
  const numbers = isList(value) ? value.map(toNumber) : [undefined]
  return numbers.every(number => number !== undefined) ? numbers : reject(found, 'a list of numbers')
}

function readItems(found: YamlField, max: number): readonly YamlField[] {
  const { path, value } = found
  if (value !== null && !isList(value)) reject(found, 'a list of maps')
  const items = value !== null && isList(value) ? value : []
  if (items.length > max) problemAt(found, `has ${items.length} items`, `at most ${max}`)
  return items.slice(0, max).map((item, index) => ({ ...found, path: `${path}[${index}]`, value: item }))
}

function toNumber(value: YamlValue): number | undefined {
  if (value === null || typeof value === 'string' || isMap(value) || isList(value)) return undefined
  return value.type !== 'bool' && Number.isFinite(value.value) ? value.value : undefined
}

/** A list or a map by its kind, any other value or key as written. */
function formatValue(value: YamlValue): string {
  if (value === null) return 'null'
  if (isMap(value)) return 'a map'
  if (isList(value)) return 'a list'
  return typeof value === 'string' ? value : value.text
}
