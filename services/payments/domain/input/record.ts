import { isObject } from '@tollway/chassis/is-object.ts'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { accept, type FieldError, type FieldErrorCode, type Result, rejectFields } from '../rejections.ts'

/** How an input was written: in a form every value is text. */
export type Encoding = 'json' | 'form'

/** The path of a value, for messages about it. */
export interface FieldContext {
  readonly path: string
  readonly encoding: Encoding
  readonly errors: FieldError[]
}

/** Replaces a value that was rejected, after its place has reported why. */
export const invalidInput = Symbol('invalid')
export type InvalidInput = typeof invalidInput

/** Converts an input to a value, or reports its problem at the place. */
type Read<T> = (value: unknown, place: FieldContext) => T | InvalidInput

/** The JSON Schemas (2020-12) of a value, for the OpenAPI document. */
interface Schemas {
  /** Of what is read from JSON. */
  readonly schema: JsonObject
  /** Of the value, as an answer has it. */
  readonly answerSchema: JsonObject
}

export type Reader<T> = Read<T> & Schemas

export function reader<T>(schema: JsonObject, read: Read<T>, answerSchema = schema): Reader<T> {
  return Object.assign((value: unknown, place: FieldContext) => read(value, place), { schema, answerSchema })
}

/** Returns the reader with a description in its schema. */
export function described<T>(read: Reader<T>, description: string): Reader<T> {
  return reader({ ...read.schema, description }, read, { ...read.answerSchema, description })
}

interface RecordField<T> extends Schemas {
  /** The value of a missing field; `invalid` if the field is required. */
  readonly absent: T | InvalidInput
  readonly read: Read<T>
}

/** The most fields that one input reports. The first ones are the useful ones. */
export const maxFieldErrors = 50

/** The length of an input in a message; the rest is cut. */
const maxQuoted = 60

export function requiredField<T>(read: Reader<T>): RecordField<T> {
  return { absent: invalidInput, read, schema: read.schema, answerSchema: read.answerSchema }
}

/** A field that is not there, or is null, becomes null. */
export function optionalField<T>(read: Reader<T>): RecordField<T | null> {
  return { absent: null, read, schema: orNull(read.schema), answerSchema: orNull(read.answerSchema) }
}

/** The field where a record is changed: one that is missing, or is null, becomes null. */
export function optionalInUpdate<T>(field: RecordField<T | null>): RecordField<T | null> {
  if (field.absent === null) return field
  return { ...field, absent: null, schema: orNull(field.schema), answerSchema: orNull(field.answerSchema) }
}

export function withDefault<T extends Json>(read: Reader<T>, value: T): RecordField<T> {
  const schema = { ...orNull(read.schema), default: value }
  return { absent: value, read, schema, answerSchema: read.answerSchema }
}

export function orNull(schema: JsonObject): JsonObject {
  return { anyOf: [schema, { type: 'null' }] }
}

export function rejectValue(place: FieldContext, code: FieldErrorCode, message: string): InvalidInput {
  if (place.errors.length < maxFieldErrors) place.errors.push({ field: place.path, code, message })
  return invalidInput
}

/** Matches text that could be the number of a card or an account, in groups or not. */
const longNumber = /\d(?:[ -]?\d){11,}/g

/**
 * Quotes an input for a message: only its type if it is long or not a text. Long numbers are left out,
 * because a card number in the wrong field must not be in an answer or a log.
 */
export function describeInput(value: unknown): string {
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

type Shape = Readonly<Record<string, RecordField<unknown>>>
/** The record that these fields give. */
export type RecordValues<S extends Shape> = {
  readonly [K in keyof S]: S[K] extends RecordField<infer T> ? T : never
}

interface RecordOptions {
  /** Handles fields that the record does not have; they are rejected as `unknown` if it is absent. */
  readonly onUnknownField?: (place: FieldContext) => void
}

/**
 * A record with these fields and no others: a field that is misspelt, or that only the service itself sets,
 * is rejected and not passed over.
 */
export function record<S extends Shape>(shape: S, options: RecordOptions = {}): Reader<RecordValues<S>> {
  const { onUnknownField = place => rejectUnknown(place, Object.keys(shape)) } = options
  const read: Read<RecordValues<S>> = (value, place) => {
    if (!isObject(value))
      return rejectValue(place, 'type', `${describeInput(value)} is not an object with fields`)
    const before = place.errors.length
    const result: Record<string, unknown> = {}
    for (const [name, field] of Object.entries(shape)) {
      result[name] = readField(field, Object.hasOwn(value, name) ? value[name] : undefined, at(place, name))
    }
    for (const name of Object.keys(value)) if (!Object.hasOwn(shape, name)) onUnknownField(at(place, name))
    return place.errors.length > before ? invalidInput : (result as RecordValues<S>)
  }
  return reader(describeInputSchema(shape), read, describeAnswerSchema(shape))
}

function describeInputSchema(shape: Shape): JsonObject {
  const fields = Object.entries(shape)
  return {
    type: 'object',
    additionalProperties: false,
    required: fields.filter(([, field]) => field.absent === invalidInput).map(([name]) => name),
    properties: Object.fromEntries(fields.map(([name, { schema }]) => [name, schema])),
  }
}

function describeAnswerSchema(shape: Shape): JsonObject {
  const properties = Object.entries(shape).map(([name, { answerSchema }]) => [name, answerSchema])
  return {
    type: 'object',
    additionalProperties: false,
    required: Object.keys(shape),
    properties: Object.fromEntries(properties),
  }
}

function rejectUnknown(place: FieldContext, names: readonly string[]): InvalidInput {
  return rejectValue(place, 'unknown', `there is no such field; there are ${names.join(', ')}`)
}

function readField(field: RecordField<unknown>, value: unknown, place: FieldContext): unknown {
  const absent = value === undefined || value === null || (place.encoding === 'form' && value === '')
  if (!absent) return field.read(value, place)
  return field.absent === invalidInput ? rejectValue(place, 'required', 'is missing') : field.absent
}

function at(place: FieldContext, name: string): FieldContext {
  const shown = withoutLongNumbers(name.length > maxQuoted ? `${name.slice(0, maxQuoted)}…` : name)
  return { ...place, path: place.path === '' ? shown : `${place.path}.${shown}` }
}

/** Reads a whole input. All problems are reported at once. */
export function parseInput<T>(read: Read<T>, value: unknown, encoding: Encoding): Result<T> {
  const errors: FieldError[] = []
  const result = read(value ?? {}, { path: '', encoding, errors })
  return result === invalidInput || errors.length > 0 ? rejectFields(errors) : accept(result)
}
