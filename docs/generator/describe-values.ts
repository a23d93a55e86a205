import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { clusterConfigSchema } from '@tollway/crds/cluster-config.ts'
import type { Schema } from '@tollway/crds/schema.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { valuesSchema } from '../../charts/values-schema.ts'
import { describeBounds, describeType } from './describe-resource.ts'

const valuesFile = join(import.meta.dirname, '../../charts/tollway/values.yaml')

/** One row of the table of values. */
interface ValueRow {
  /** The names of the value and of all its parents, from the root. The name of a list ends in `[]`. */
  readonly path: readonly string[]
  readonly schema: Schema
}

/** Returns the values of the chart as tables in Markdown, one for each top-level value. */
export function describeValues(): string {
  const defaults: unknown = load(readFileSync(valuesFile, 'utf8'), { schema: CORE_SCHEMA })
  const schema: Schema = valuesSchema()
  const parts = Map.groupBy(listLeaves(schema, []), ({ path }) => (path.length > 1 ? (path[0] ?? '') : ''))
  return [...parts].map(([part, rows]) => describePart(part, schema, rows, defaults)).join('\n')
}

/** Returns the values that have no nested values, in the order of the schema. */
function listLeaves({ properties = {} }: Schema, parent: readonly string[]): readonly ValueRow[] {
  return Object.entries(properties).flatMap(([name, field]) => {
    const isList = field.type === 'array'
    const path = [...parent, isList ? `${name}[]` : name]
    const below = listLeaves(isList ? (field.items ?? {}) : field, path)
    if (isList) return [{ path, schema: field }, ...below]
    return below.length > 0 ? below : [{ path, schema: field }]
  })
}

function describePart(part: string, schema: Schema, rows: readonly ValueRow[], defaults: unknown): string {
  const own = schema.properties?.[part.replace('[]', '')]
  const lines = rows.map(({ path, schema: field }) => {
    const cells = [
      `\`${path.join('.')}\``,
      describeType(field),
      readDefault(path, defaults),
      describeBounds(field),
      field.description ?? '',
    ]
    return `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  })
  const heading = part === '' ? '## Top-level values' : `## ${part.replace('[]', '')}`
  const text = own?.description === undefined ? [] : [own.description, '']
  const head = ['| Value | Type | Default | Allowed | Meaning |', '|---|---|---|---|---|']
  return [heading, '', ...text, ...head, ...lines, ''].join('\n')
}

/** Returns the default in values.yaml or, if there is none, the default of the operator. */
function readDefault(path: readonly string[], defaults: unknown): string {
  const names = path.map(name => name.replace('[]', ''))
  const written = names.reduce<unknown>(
    (at, name) => (at as Record<string, unknown> | undefined)?.[name],
    defaults,
  )
  const own = names.reduce<Schema | undefined>((at, name) => at?.properties?.[name], clusterConfigSchema)
  const value = written ?? own?.default
  return value === undefined ? '' : `\`${JSON.stringify(value)}\``
}
