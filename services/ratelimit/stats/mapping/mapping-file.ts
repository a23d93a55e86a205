import { createFindings } from '../../rules/findings/findings.ts'
import type { Problem } from '../../rules/rate-limit-domain.ts'
import { isMap, readYaml } from '../../rules/yaml/yaml-document.ts'
import { defaultBuckets, globPattern, type Mapping, type MetricKind } from './mapping.ts'
import { compilePattern, maxPatternCharacters } from './pattern.ts'
import { type Fields, type Found, readFields } from './yaml-fields.ts'

/** Every new statistic is matched against each mapping. */
export const maxMappings = 1000
export const maxBuckets = 100
export const maxLabels = 32

/**
 * Parses a mapping file in statsd_exporter's format. Every problem includes `name`, and all problems are
 * reported. As there, globs come before regular expressions in any order of the file, and regular expressions
 * are not anchored. Unlike there, timers are histograms by default (other types are rejected: summaries are
 * not supported), and an unknown key is a problem. A field without effect here, such as `ttl`, is a warning.
 */
export function parseMappingFile(
  name: string,
  text: string,
):
  | { readonly value: readonly Mapping[]; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] } {
  const findings = createFindings()
  const read = readYaml(text)
  if ('error' in read) findings.problem(name, '', read.error)
  const document = 'error' in read ? null : read.document
  const file = readFields({ findings, source: name, path: '', value: document }, ['defaults', 'mappings'])
  const defaults = readDefaults(file.below('defaults'))
  const mappings = file.list('mappings', maxMappings, item => {
    const fields = readFields(item, mappingKeys)
    // An item that is not a map is already reported; its missing fields are not.
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

/** The type of timers. `timer_type` is the older name of `observer_type`. */
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

function readDefaults(place: Found): Defaults {
  const fields = readFields(place, defaultsKeys)
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
