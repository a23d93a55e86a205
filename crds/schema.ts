import type { Json } from '@tollway/chassis/json.ts'
import Type, { type TUnsafe } from 'typebox'

/**
 * A schema with the JSON Schema keywords that custom resources use: those that Kubernetes allows in
 * structural schemas and `validateValue` implements. Schemas of TypeBox are assignable to it.
 */
export interface Schema {
  /** The type of the value; undefined if any JSON value is allowed. */
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'boolean'
  /** The description of the field in `kubectl explain` and in the documentation. */
  readonly description?: string
  /** The value that replaces a missing field and null. */
  readonly default?: Json
  readonly enum?: readonly string[]
  /** A hint for programs, `int64` or `date-time`. Validation in this process ignores it. */
  readonly format?: string
  readonly pattern?: string
  /** What a text of the pattern is, in words, for a message. */
  readonly form?: string
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
  /** With `map`, two items of the list must differ in at least one of the map keys. */
  readonly 'x-kubernetes-list-type'?: 'map' | 'atomic'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  /** If true, any JSON value is allowed, and the API server keeps it. */
  readonly 'x-kubernetes-preserve-unknown-fields'?: true
  /** Rules between fields in CEL, for the API server. This process uses `rules` instead. */
  readonly 'x-kubernetes-validations'?: readonly CelRule[]
  /** Rules between fields, for this process only. */
  readonly rules?: readonly Rule[]
  /** The message for a list longer than `maxItems`, where the number alone would not explain the problem. */
  readonly tooManyItems?: string
}

export interface CelRule {
  readonly rule: string
  readonly message: string
}

/**
 * A rule between the fields of one object. It gets the object as it was written: a field may have any value,
 * even of a wrong type. It returns a problem for each wrong field, with a path relative to the object:
 * `unit`.
 */
type Rule = (fields: Fields) => readonly SchemaProblem[]

export type Fields = Readonly<Record<string, unknown>>

export interface SchemaProblem {
  /** The path of the field: `spec.descriptors[2].rateLimit.unit`. */
  readonly path: string
  /** The found and the allowed values: `"minuet" is not one of second, minute, hour, day`. */
  readonly message: string
}

/**
 * A part of the schema of an object whose fields are all optional or have a default: no field is required.
 * TypeBox lists fields with a default as required, because they are present after defaults are filled in; but
 * a user may omit them.
 */
export const notRequired = { required: [] }

/**
 * Gives a schema a type that TypeBox cannot infer: of a map with free names, or of a schema that contains
 * itself.
 */
export function typed<Value>(schema: Schema): TUnsafe<Value> & Schema {
  return Type.Unsafe<Value>(schema) as TUnsafe<Value> & Schema
}

/** Returns whether the value is a map: not a list, not null, and not an instance of a class. */
export function isFields(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** The type with all fields and lists read-only, at any depth. */
export type DeepReadonly<Value> = Value extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : Value extends object
    ? { readonly [Name in keyof Value]: DeepReadonly<Value[Name]> }
    : Value

/** A rule between fields, written twice: `cel` for the API server, `judge` for validation in this process. */
export interface FieldRule {
  readonly cel: CelRule
  readonly judge: Rule
}

/** A rule that also has a form for the admission policy, which checks nested descriptors. */
export interface PolicyRule extends FieldRule {
  /**
   * The rule as CEL expressions, all of which must be true. `self` may be an optional value, and `a <= b`
   * means "a implies b". The policy evaluates these expressions in a loop over thousands of descriptors;
   * there, the cost accounting of an API server makes `||`, `&&` and `? :` slow. A definition cannot have
   * this form, because an API server estimates the cost of optional values as unlimited.
   */
  readonly inPolicy: readonly string[]
  /**
   * A CEL condition: while it is false, the rule cannot be violated. The policy evaluates it once for all
   * rules with the same guard, and their expressions only if it is true.
   */
  readonly policyGuard?: string
  /**
   * Whether the evaluation of a violated rule fails, with an error that has the wrong text. CEL cannot turn an
   * error into false.
   */
  readonly failsInCel?: true
}

export function withRules(
  rules: readonly FieldRule[],
): Required<Pick<Schema, 'rules' | 'x-kubernetes-validations'>> {
  return {
    rules: rules.map(({ judge }) => judge),
    'x-kubernetes-validations': rules.map(({ cel }) => cel),
  }
}
