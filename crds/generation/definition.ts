import type { JsonObject } from '@tollway/chassis/json.ts'
import { apiGroup, type ResourceKind } from '../resource-kind.ts'
import type { Schema } from '../schema.ts'

export function customResourceDefinition(kind: ResourceKind): JsonObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${apiGroup}` },
    spec: {
      group: apiGroup,
      scope: 'Namespaced',
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        shortNames: kind.shortNames,
        categories: ['tollway'],
      },
      versions: [
        {
          name: kind.version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: kind.columns.map(column => ({ ...column })),
          schema: { openAPIV3Schema: resourceSchema(kind) },
        },
      ],
    },
  }
}

function resourceSchema({ kind, version, description, spec, status }: ResourceKind): JsonObject {
  return structuralSchema({
    type: 'object',
    description,
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string', description: `The version of this form: ${apiGroup}/${version}.` },
      kind: { type: 'string', description: `The kind of this resource: ${kind}.` },
      metadata: { type: 'object' },
      spec,
      status,
    },
  })
}

/** The keywords of a schema that a definition contains, in the order of the output. */
const keywords = [
  'description',
  'type',
  'format',
  'default',
  'enum',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'maxProperties',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-validations',
  'required',
] as const satisfies readonly (keyof Schema)[]

const nested: readonly string[] = ['properties', 'items', 'additionalProperties']
const inProcess: readonly string[] = ['rules', 'tooManyItems', 'form']
const known = new Set<string>([...keywords, ...nested, ...inProcess])

/**
 * Returns a schema in the form that a definition requires.
 *
 * @throws Error for a keyword that `validateValue` ignores: the API server would judge differently than this
 *   process
 */
function structuralSchema(schema: Schema): JsonObject {
  const unknown = Object.keys(schema).find(keyword => !known.has(keyword))
  if (unknown !== undefined) throw new Error(`validation does not know the schema keyword ${unknown}`)
  const { properties, items, additionalProperties } = schema
  const own = keywords.flatMap(keyword =>
    isIncluded(keyword, schema[keyword]) ? [[keyword, schema[keyword]]] : [],
  )
  return {
    ...Object.fromEntries(own),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => [name, structuralSchema(field)]),
      ),
    }),
    ...(items && { items: structuralSchema(items) }),
    ...(additionalProperties && { additionalProperties: structuralSchema(additionalProperties) }),
  }
}

function isIncluded(keyword: keyof Schema, value: unknown): boolean {
  if (value === undefined) return false
  return keyword === 'default' || !(Array.isArray(value) && value.length === 0)
}
