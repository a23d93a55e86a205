import { isObject } from '@tollway/chassis/is-object.ts'
import type { JsonObject, JsonValue } from '../json.ts'
import { accept, type FieldError, type FieldErrorCode, type Result, rejectFields } from '../rejections.ts'

/** How an input was written: in a form every value is text. */
export type Encoding = 'json' | 'form'

/** The path of a value, for messages about it. */
export interface Place {
  readonly path: string
  readonly encoding: Encoding
  readonly errors: FieldError[]
}

/** Replaces a value that was rejected, after its place has reported why. */
export const invalid = Symbol('invalid')
export type Invalid = typeof invalid

/** Converts an input to a value, or reports its problem at the place. */
type Read<T> = (value: unknown, place: Place) => T | Invalid

/** The JSON Schemas (2020-12) of a value, for the OpenAPI document. */
interface Schemas {
  /** Of what is read from JSON. */
  readonly schema: JsonObject
  /** Of the value, as an answer has it. */
  readonly answerSchema: JsonObject
}

export type Reader<T> = Read<T> & Schemas

export function reader<T>(schema: JsonObject, read: Read<T>, answerSchema = schema): Reader<T> {
  return Object.assign((value: unknown, place: Place) => read(value, place), { schema, answerSchema })
}

/** Returns the reader with a description in its schema. */
export function described<T>(read: Reader<T>, description: string): Reader<T> {
  return reader({ ...read.schema, description }, read, { ...read.answerSchema, description })
}

interface Field<T> extends Schemas {
  /** The value of a missing field; `invalid` if the field is required. */
  readonly absent: T | Invalid
  readonly read: Read<T>
}

/** The most fields that one input reports. The first ones are the useful ones. */
export const maxFieldErrors = 50

/** The length of an input in a message; the rest is cut. */
const maxQuoted = 60

export function required<T>(read: Reader<T>): Field<T> {
  return { absent: invalid, read, schema: read.schema, answerSchema: read.answerSchema }
}

/** A field that is not there, or is null, becomes null. */
export function optional<T>(read: Reader<T>): Field<T | null> {
  return { absent: null, read, schema: orNull(read.schema), answerSchema: orNull(read.answerSchema) }
}

/** The field where a record is changed: one that is missing, or is null, becomes null. */
export function mayBeMissing<T>(field: Field<T | null>): Field<T | null> {
  if (field.absent === null) return field
  return { ...field, absent: null, schema: orNull(field.schema), answerSchema: orNull(field.answerSchema) }
}

export function withDefault<T extends JsonValue>(read: Reader<T>, value: T): Field<T> {
  const schema = { ...orNull(read.schema), default: value }
  return { absent: value, read, schema, answerSchema: read.answerSchema }
}

export function orNull(schema: JsonObject): JsonObject {
  return { anyOf: [schema, { type: 'null' }] }
}

export function rejectValue(place: Place, code: FieldErrorCode, message: string): Invalid {
  if (place.errors.length < maxFieldErrors) place.errors.push({ field: place.path, code, message })
  return invalid
}

/** Matches text that could be the number of a card or an account, in groups or not. */
const longNumber = /\d(?:[ -]?\d){11,}/g

/**
 * Quotes an input for a message: only its type if it is long or not a text. Long numbers are left out,
 * because a card number in the wrong field must not be in an answer or a log.
 */
export function quote(value: unknown): string {
  if (typeof value === 'string' && value.length > maxQuoted) return `a text of ${value.length} characters`
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return withoutLongNumbers(JSON.stringify(value))
  }
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : `an ${typeof value}`
}

function withoutLongNumbers(text: string): string {
  return text.replace(longNumber, '(a long number)')
}

type Shape = Readonly<Record<string, Field<unknown>>>
/** The record that these fields give. */
export type Values<S extends Shape> = { readonly [K in keyof S]: S[K] extends Field<infer T> ? T : never }

interface RecordOptions {
  /** Handles fields that the record does not have; they are rejected as `unknown` if it is absent. */
  readonly meetOther?: (place: Place) => void
}

/**
 * A record with these fields and no others: a field that is misspelt, or that only the service itself sets,
 * is rejected and not passed over.
 */
export function record<S extends Shape>(shape: S, options: RecordOptions = {}): Reader<Values<S>> {
  const { meetOther = place => rejectUnknown(place, Object.keys(shape)) } = options
  const read: Read<Values<S>> = (value, place) => {
    if (!isObject(value)) return rejectValue(place, 'type', `${quote(value)} is not an object with fields`)
    const before = place.errors.length
    const result: Record<string, unknown> = {}
    for (const [name, field] of Object.entries(shape)) {
      result[name] = readField(field, Object.hasOwn(value, name) ? value[name] : undefined, at(place, name))
    }
    for (const name of Object.keys(value)) if (!Object.hasOwn(shape, name)) meetOther(at(place, name))
    return place.errors.length > before ? invalid : (result as Values<S>)
  }
  return reader(schemaOf(shape), read, answerSchemaOf(shape))
}

function schemaOf(shape: Shape): JsonObject {
  const fields = Object.entries(shape)
  return {
    type: 'object',
    additionalProperties: false,
    required: fields.filter(([, field]) => field.absent === invalid).map(([name]) => name),
    properties: Object.fromEntries(fields.map(([name, { schema }]) => [name, schema])),
  }
}

function answerSchemaOf(shape: Shape): JsonObject {
  const properties = Object.entries(shape).map(([name, { answerSchema }]) => [name, answerSchema])
  return {
    type: 'object',
    additionalProperties: false,
    required: Object.keys(shape),
    properties: Object.fromEntries(properties),
  }
}

function rejectUnknown(place: Place, names: readonly string[]): Invalid {
  return rejectValue(place, 'unknown', `there is no such field; there are ${names.join(', ')}`)
}

function readField(field: Field<unknown>, value: unknown, place: Place): unknown {
  const absent = value === undefined || value === null || (place.encoding === 'form' && value === '')
  if (!absent) return field.read(value, place)
  return field.absent === invalid ? rejectValue(place, 'required', 'is missing') : field.absent
}

function at(place: Place, name: string): Place {
  const shown = withoutLongNumbers(name.length > maxQuoted ? `${name.slice(0, maxQuoted)}…` : name)
  return { ...place, path: place.path === '' ? shown : `${place.path}.${shown}` }
}

/** Reads a whole input. All problems are reported at once. */
export function parseInput<T>(read: Read<T>, value: unknown, encoding: Encoding): Result<T> {
  const errors: FieldError[] = []
  const result = read(value ?? {}, { path: '', encoding, errors })
  return result === invalid || errors.length > 0 ? rejectFields(errors) : accept(result)
}
