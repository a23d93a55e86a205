import type { Schema } from './schema.ts'

export const apiGroup = 'tollway.dev'

export const apiVersion = `${apiGroup}/v1alpha1` as const

/** A kind of custom resource, from which its CustomResourceDefinition and its validation are made. */
export interface ResourceKind {
  readonly kind: string
  readonly version: string
  readonly plural: string
  readonly singular: string
  readonly shortNames: readonly string[]
  readonly description: string
  readonly spec: Schema
  readonly status: Schema
  /** The columns of `kubectl get` after the name. */
  readonly columns: readonly PrinterColumn[]
}

interface PrinterColumn {
  readonly name: string
  readonly type: 'string' | 'integer' | 'boolean' | 'date'
  readonly jsonPath: string
  readonly description: string
}

/**
 * Returns the schema of a whole resource as a user writes it. Any status is accepted and ignored, as by the
 * API server, since users do not write it.
 */
export function wholeResource({ kind, version, spec }: ResourceKind): Schema {
  return {
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    properties: {
      apiVersion: { type: 'string', enum: [`${apiGroup}/${version}`] },
      kind: { type: 'string', enum: [kind] },
      metadata: objectMeta,
      spec,
      status: anything,
    },
  }
}

const anything: Schema = {}
const texts: Schema = { type: 'object', additionalProperties: { type: 'string' } }

/**
 * A label of RFC 1123. Kubernetes allows one as the name of a namespace, and several, joined by dots, as the
 * name of a resource.
 */
const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'

const objectMeta: Schema = {
  type: 'object',
  required: ['name'],
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 253, pattern: `^${label}(\\.${label})*$` },
    namespace: { type: 'string', minLength: 1, maxLength: 63, pattern: `^${label}$` },
    labels: texts,
    annotations: texts,
    finalizers: anything,
    ownerReferences: anything,
    generateName: anything,
    uid: anything,
    resourceVersion: anything,
    generation: anything,
    creationTimestamp: anything,
    deletionTimestamp: anything,
    deletionGracePeriodSeconds: anything,
    managedFields: anything,
    selfLink: anything,
  },
}

/**
 * Returns the column of `kubectl get` for the condition Ready.
 *
 * @param description when a resource of the kind is ready
 */
export function readyColumn(description: string): PrinterColumn {
  return {
    name: 'Ready',
    type: 'string',
    jsonPath: '.status.conditions[?(@.type=="Ready")].status',
    description,
  }
}

export const ageColumn: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'The age of the resource.',
}

/**
 * The last columns of a kind that service processes enforce; `feedStatus` defines the fields that they show.
 */
export const feedColumns: readonly PrinterColumn[] = [
  readyColumn('Whether every process enforces the current version of the resource.'),
  {
    name: 'Enforced',
    type: 'string',
    jsonPath: '.status.enforced',
    description: 'The number of processes that enforce it, and the number of processes that serve calls.',
  },
  ageColumn,
]
