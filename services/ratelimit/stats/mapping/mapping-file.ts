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
  const file = new YamlField(findings, name, '', document)
  file.checkKeys(['defaults', 'mappings'])
  const defaults = readDefaults(file.at('defaults'))
  const mappings = file
    .at('mappings')
    .items(maxMappings)
    .flatMap(item => {
      item.checkKeys(mappingKeys)
      // An item that is not a map has been reported. It must not cause further problems for missing fields.
      return isMap(item.value) ? [readMapping(item, defaults)] : []
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

function readDefaults(fields: YamlField): Defaults {
  fields.checkKeys(defaultsKeys)
  fields.at('ttl').warnUnless(['0', '0s'], 'series are never removed')
  fields.at('glob_disable_ordering').warnUnless(['false'], 'globs are tried in order')
  return {
    matchType: fields.at('match_type').word(matchTypes) ?? 'glob',
    buckets: readBuckets(fields) ?? defaultBuckets,
  }
}

function readMapping(
  fields: YamlField,
  defaults: Defaults,
): { readonly mapping: Mapping; readonly glob: boolean } {
  const drop = fields.at('action').word(['map', 'drop']) === 'drop'
  const matchType = fields.at('match_type').word(matchTypes) ?? defaults.matchType
  const kind = fields.at('match_metric_type').word(['counter', 'gauge', 'observer', 'timer'])
  fields.at('ttl').warnUnless(['0', '0s'], 'series are never removed')
  fields.at('honor_labels').warnUnless(['false'], 'the labels of a mapping win over EXTRA_TAGS')
  const { pattern, groups } = readMatch(fields.at('match'), matchType)
  const mapping: Mapping = {
    pattern,
    ...(kind !== undefined && { kind: metricKind(kind) }),
    drop,
    name: readName(fields, drop, groups),
    labels: readLabels(fields, groups),
    help: fields.at('help').text(),
    buckets: readBuckets(fields) ?? defaults.buckets,
    scale: fields.at('scale').number() ?? 1,
  }
  return { mapping, glob: matchType === 'glob' }
}

function metricKind(word: 'counter' | 'gauge' | 'observer' | 'timer'): MetricKind {
  return word === 'observer' ? 'timer' : word
}

function readMatch(
  field: YamlField,
  matchType: MatchType,
): { readonly pattern: RegExp; readonly groups: number } {
  const text = field.text()
  const nothing = { pattern: /(?!)/, groups: 0 }
  if (text === '') {
    field.problem('is missing', 'a glob or a regular expression')
    return nothing
  }
  if (matchType === 'regex') {
    const compiled = compilePattern(text)
    if ('pattern' in compiled) return compiled
    field.problem(
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
    field.problem(`'${text}' is not a glob`, allowed)
    return nothing
  }
  return { pattern: globPattern(text), groups: parts.filter(part => part === '*').length }
}

function readName(fields: YamlField, drop: boolean, groups: number): string {
  const field = fields.at('name')
  const name = field.text()
  if (drop) return name
  if (!/^(?:[a-zA-Z_]|\$\{?\d+\}?)(?:[a-zA-Z0-9_]|\$\{?\d+\}?)*$/.test(name)) {
    const allowed = 'letters, digits and _, no digit first, and $1, $2, …'
    field.problem(`'${name}' is not the name of a metric`, allowed)
  }
  checkReferences(field, name, groups)
  return name
}

function readLabels(fields: YamlField, groups: number): ReadonlyMap<string, string> {
  const labels = fields.at('labels').texts()
  if (labels.size > maxLabels)
    fields.at('labels').problem(`has ${labels.size} labels`, `at most ${maxLabels}`)
  for (const [label, template] of labels) {
    const field = fields.at(`labels.${label}`)
    if (!/^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/.test(label) || label === 'le') {
      const allowed = 'letters, digits and _, no digit and no __ first, and not le'
      field.problem(`'${label}' is not the name of a label`, allowed)
    }
    checkReferences(field, template, groups)
  }
  return labels
}

function checkReferences(field: YamlField, template: string, groups: number): void {
  for (const [reference, braced, bare] of template.matchAll(/\$(?:\{(\d+)\}|(\d+))/g)) {
    if (Number(braced ?? bare) <= groups) continue
    field.warn(`${reference} is always empty: the match has no such group`, `$1 to $${groups}`)
  }
}

function readBuckets(fields: YamlField): readonly number[] | undefined {
  fields.at('observer_type').word(['histogram'])
  fields.at('timer_type').word(['histogram'])
  for (const field of [fields.at('quantiles'), fields.at('summary_options')]) {
    if (field.value !== null) field.problem('summaries are not supported', 'a histogram with buckets')
  }
  const options = fields.at('histogram_options')
  options.checkKeys(['buckets'])
  return readBounds(fields) ?? readBounds(options)
}

function readBounds(fields: YamlField): readonly number[] | undefined {
  const bounds = fields.at('buckets').numbers()
  if (bounds === undefined || bounds.length === 0) return undefined
  const ascending = bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? bound))
  if (ascending && bounds.length <= maxBuckets) return bounds
  fields.at('buckets').problem(`[${bounds.join(', ')}]`, `ascending numbers, at most ${maxBuckets}`)
  return undefined
}

/**
 * A value of a file. A missing value is null, and an invalid one is reported and then treated as missing. Null
 * is an empty map, list or text.
 */
class YamlField {
  readonly #findings: Findings
  readonly #source: string
  readonly #path: string
  readonly value: YamlValue
  #map: YamlMap | undefined

  /** @param source the name of the file in problems */
  constructor(findings: Findings, source: string, path: string, value: YamlValue) {
    this.#findings = findings
    this.#source = source
    this.#path = path
    this.value = value
  }

  /** Reports keys of the map that are not known. */
  checkKeys(known: readonly string[]): void {
    for (const key of this.#readMap().keys()) {
      if (typeof key === 'string' && known.includes(key)) continue
      this.at(formatValue(key)).problem('unknown key', `one of ${known.join(', ')}`)
    }
  }

  /** Returns the value of a key of the map. */
  at(key: string): YamlField {
    return this.#child(joinPath(this.#path, key), this.#readMap().get(key) ?? null)
  }

  /** Returns a text, or a number or a boolean as it is written. */
  text(): string {
    const { value } = this
    if (value === null || typeof value === 'string') return value ?? ''
    if (!isMap(value) && !isList(value)) return value.text
    this.#reject('a text')
    return ''
  }

  word<const Word extends string>(words: readonly Word[]): Word | undefined {
    const text = this.text()
    const word = words.find(each => each === text)
    if (word === undefined && text !== '') this.problem(`'${text}' is not supported`, words.join(', '))
    return word
  }

  number(): number | undefined {
    const number = toNumber(this.value)
    if (this.value !== null && number === undefined) this.#reject('a number')
    return number
  }

  numbers(): readonly number[] | undefined {
    const { value } = this
    if (value === null) return undefined
    const numbers = isList(value) ? value.map(toNumber) : [undefined]
    if (numbers.every(number => number !== undefined)) return numbers
    this.#reject('a list of numbers')
    return undefined
  }

  /** Returns a map of texts. */
  texts(): ReadonlyMap<string, string> {
    const keys = [...this.#readMap().keys()].map(formatValue)
    return new Map(keys.map(key => [key, this.at(key).text()]))
  }

  /** Returns the items of a list. More than `max` items are a problem. */
  items(max: number): readonly YamlField[] {
    const { value } = this
    if (value !== null && !isList(value)) this.#reject('a list of maps')
    const items = value !== null && isList(value) ? value : []
    if (items.length > max) this.problem(`has ${items.length} items`, `at most ${max}`)
    return items.slice(0, max).map((item, index) => this.#child(`${this.#path}[${index}]`, item))
  }

  problem(message: string, allowed: string): void {
    this.#findings.problem(this.#source, this.#path, message, allowed)
  }

  warn(message: string, allowed: string): void {
    this.#findings.warn(this.#source, this.#path, message, allowed)
  }

  /** Warns that the field has no effect, unless it is left out or has one of these values. */
  warnUnless(written: readonly string[], message: string): void {
    const text = this.text()
    if (text !== '' && !written.includes(text)) this.warn(`has no effect: ${message}`, written.join(', '))
  }

  #child(path: string, value: YamlValue): YamlField {
    return new YamlField(this.#findings, this.#source, path, value)
  }

  #readMap(): YamlMap {
    if (this.#map === undefined) {
      this.#map = isMap(this.value) ? this.value : new Map()
      if (!isMap(this.value) && this.value !== null) this.#reject('a map')
    }
    return this.#map
  }

  #reject(allowed: string): void {
    this.problem(`cannot be ${formatValue(this.value)}`, allowed)
  }
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
