import type { ResourceKind } from '@tollway/crds/resource-kind.ts'
import type { Schema } from '@tollway/crds/schema.ts'

/** One row of the table of fields. */
interface FieldRow {
  /** The path of the field, such as `spec.descriptors[].key`. */
  readonly path: string
  readonly schema: Schema
  readonly required: boolean
}

/** Returns the fields of a resource as Markdown: the spec, the rules between the fields, and the status. */
export function describeResource(kind: ResourceKind): string {
  const spec = listFields(kind.spec, 'spec')
  const status = listFields(kind.status, 'status')
  return [
    describeUse(kind),
    '## Fields',
    '',
    fieldTable(spec),
    '## Rules between fields',
    '',
    ...[{ path: 'spec', schema: kind.spec }, ...spec].flatMap(listRules),
    '',
    '## Fields of the status',
    '',
    fieldTable(status),
  ].join('\n')
}

function describeUse({ kind, singular }: ResourceKind): string {
  return `## Working with it

The name of the example is NAME, and its file FILE.

| To | In a cluster | On one machine |
|---|---|---|
| check it before it is applied | \`kubectl tollway validate -f FILE\`, which finds more than \`kubectl apply --dry-run=server -f FILE\` | \`tollway validate -f FILE\` |
| see what it would change | \`kubectl tollway diff -f FILE\` | \`tollway diff -f FILE\` |
| create or change it | \`kubectl apply -f FILE\` | save the file in the folder of \`tollway run\` |
| wait until it is enforced | \`kubectl wait --for=condition=Ready ${singular}/NAME\` | \`tollway status --wait 30\` |
| see why it is not | \`kubectl describe ${singular} NAME\` | \`tollway status\` |
| ignore its spec for a time | \`kubectl annotate ${singular} NAME tollway.dev/paused=true\` | the same annotation in the file |
| remove it | \`kubectl delete ${singular} NAME\` | delete the file |

While a ${kind} is invalid or paused, its last good version stays in force. The
[conditions](operator.md#status) of its status have the reason.
`
}

/**
 * Returns the fields in the order of the schema, nested fields after their parent. A recursive field is
 * listed once.
 */
function listFields(schema: Schema, parent: string): readonly FieldRow[] {
  const { properties = {}, required = [] } = schema
  return Object.entries(properties).flatMap(([name, field]) => {
    const path = `${parent}.${name}${field.type === 'array' ? '[]' : ''}`
    const row = { path, schema: field, required: required.includes(name) }
    const isRecursive = parent.endsWith(`.${name}[]`)
    return isRecursive ? [row] : [row, ...listFields(field.items ?? field, path)]
  })
}

function fieldTable(rows: readonly FieldRow[]): string {
  const lines = rows.map(({ path, schema, required }) =>
    [
      `\`${path}\``,
      describeType(schema),
      required ? 'yes' : '',
      showDefault(schema),
      describeBounds(schema),
      joinDescriptions(schema),
    ]
      .map(cell => cell.replaceAll('|', '\\|'))
      .join(' | '),
  )
  return [
    '| Field | Type | Required | Default | Allowed | Meaning |',
    '|---|---|---|---|---|---|',
    ...lines.map(line => `| ${line} |`),
    '',
  ].join('\n')
}

/** Returns the name of a type in words, such as `list of maps`. */
export function describeType({
  type,
  items,
  'x-kubernetes-preserve-unknown-fields': isFree,
}: Schema): string {
  if (type === 'array') return items?.type === 'object' ? 'list of maps' : 'list'
  if (type === 'object') return isFree ? 'map of anything' : 'map'
  return type ?? 'anything'
}

function showDefault(schema: Schema): string {
  return schema.default === undefined ? '' : `\`${JSON.stringify(schema.default)}\``
}

/** Returns the allowed values as Markdown; empty if every value of the type is allowed. */
export function describeBounds(schema: Schema): string {
  const { minLength = 0, maxLength, minimum, maximum, minItems, maxItems, maxProperties, pattern } = schema
  const bounds: string[] = []
  if (schema.enum !== undefined) bounds.push(schema.enum.map(word => `\`${word}\``).join(', '))
  if (maxLength !== undefined) bounds.push(`${minLength} to ${maxLength} characters`)
  if (minimum !== undefined)
    bounds.push(maximum === undefined ? `from ${minimum}` : `${minimum} to ${maximum}`)
  if (maxItems !== undefined)
    bounds.push(minItems === undefined ? `at most ${maxItems} items` : `${minItems} to ${maxItems} items`)
  if (maxProperties !== undefined) bounds.push(`at most ${maxProperties} fields`)
  if (pattern !== undefined) bounds.push(`\`${pattern}\``)
  return bounds.join('; ')
}

function joinDescriptions({ description = '', items }: Schema): string {
  return [description, items?.description ?? ''].filter(text => text !== '').join(' ')
}

function listRules({ path, schema }: Pick<FieldRow, 'path' | 'schema'>): readonly string[] {
  const rules = [schema, schema.items].flatMap(one => one?.['x-kubernetes-validations'] ?? [])
  return rules.map(({ message }) => `- \`${path}\`: ${message}`)
}
