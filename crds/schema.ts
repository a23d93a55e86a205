import type { Json } from '@tollway/chassis/json.ts'
import Type, { type TUnsafe } from 'typebox'

/**
 * The keywords of JSON Schema that custom resources use: those of structural schemas of Kubernetes that
 * `validateValue` implements. Schemas of TypeBox are assignable to it.
 */
export interface Schema {
  /** Undefined for any value. */
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'boolean'
  /** The text of the field in `kubectl explain` and in the documentation. */
  readonly description?: string
  /** The value of a field that is left out, or null. */
  readonly default?: Json
  readonly enum?: readonly string[]
  /** `int64` or `date-time`: a hint for programs. Validation in this process ignores it. */
  readonly format?: string
  readonly pattern?: string
  /** The length in characters (code points), as the API server counts them. */
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[] | undefined
  readonly maxProperties?: number
  /** The schema of each value of a map with free names. */
  readonly additionalProperties?: Schema
  /** `map`: no two items of the list are equal in all of the map keys. */
  readonly 'x-kubernetes-list-type'?: 'map' | 'atomic'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  /** The field keeps any JSON value. */
  readonly 'x-kubernetes-preserve-unknown-fields'?: true
  /** Rules in CEL for the API server. This process uses `rules` instead. */
  readonly 'x-kubernetes-validations'?: readonly CelRule[]
  /** Rules between fields, for this process only. */
  readonly rules?: readonly Rule[]
  /** The problem of a list longer than `maxItems`, if the number alone would not explain it. */
  readonly tooManyItems?: string
}

export interface CelRule {
  readonly rule: string
  readonly message: string
}

/**
 * A rule between the fields of one object. Its argument is the object as it was written, so that any field
 * may have any value. It returns a problem for each wrong field, with paths relative to the object (`unit`).
 */
export type Rule = (fields: Fields) => readonly SchemaProblem[]

export type Fields = Readonly<Record<string, unknown>>

/** A problem of a resource. */
export interface SchemaProblem {
  /** `spec.descriptors[2].rateLimit.unit`. */
  readonly path: string
  /** The value and the allowed values: `"minuet" is not one of second, minute, hour, day`. */
  readonly message: string
}

/**
 * The schema of an object whose fields are all optional or have a default. TypeBox lists fields with a
 * default as required, because they are always present after the defaults are applied; a writer may omit
 * them.
 */
export const notRequired = { required: [] }

/** A schema whose type TypeBox cannot infer: a free map, or one that contains itself. */
export function typed<Value>(schema: Schema): TUnsafe<Value> & Schema {
  return Type.Unsafe<Value>(schema) as TUnsafe<Value> & Schema
}

/** Returns whether the value is a map: not a list, not null, and not an instance of a class. */
export function isFields(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
