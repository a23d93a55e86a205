import { isObject } from '@tollway/chassis/is-object.ts'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { withoutLongNumbers } from '../card.ts'
import { accept, type FieldError, type FieldErrorCode, type Result, rejectFields } from '../rejections.ts'

/** The format of an input. In a form, every value is text, and empty text is a missing value. */
export type Encoding = 'json' | 'form'

/** The place of a value in an input, and the errors that were found in the input so far. */
export interface FieldContext {
  readonly path: string
  readonly encoding: Encoding
  readonly errors: FieldError[]
}

/** The result of reading an invalid input. Its error is in `errors` of the context. */
export const invalidValue = Symbol('invalid')
export type InvalidInput = typeof invalidValue

/** Reads a value. For an invalid input, adds an error to the context and returns `invalidValue`. */
type Read<T> = (value: unknown, place: FieldContext) => T | InvalidInput

/** The JSON Schemas (2020-12) of a value in the OpenAPI document. */
interface Schemas {
  readonly schema: JsonObject
  /** The schema of the value in an answer, which differs if reading converts the value or adds a default. */
  readonly answerSchema: JsonObject
}

export type Reader<T> = Read<T> & Schemas

export function reader<T>(schema: JsonObject, read: Read<T>, answerSchema = schema): Reader<T> {
  return Object.assign((value: unknown, place: FieldContext) => read(value, place), { schema, answerSchema })
}

export function described<T>(read: Reader<T>, description: string): Reader<T> {
  return reader({ ...read.schema, description }, read, { ...read.answerSchema, description })
}

interface RecordField<T> extends Schemas {
  /** The value of a missing field. `invalidValue` makes the field required. */
  readonly absent: T | InvalidInput
  readonly read: Read<T>
}

/** At most this many field errors are reported in one rejection; later ones are dropped. */
const maxFieldErrors = 50

/** Messages quote inputs up to this length, in characters. Of a longer text, they state only the length. */
const maxQuoted = 60

export function requiredField<T>(read: Reader<T>): RecordField<T> {
  return { absent: invalidValue, read, schema: read.schema, answerSchema: read.answerSchema }
}

/** Creates a field that may be missing or null; both become null. */
export function optionalField<T>(read: Reader<T>): RecordField<T | null> {
  return { absent: null, read, schema: orNull(read.schema), answerSchema: orNull(read.answerSchema) }
}

/** Returns the field as a part of an update: it may be missing or null, and both become null. */
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
  return invalidValue
}

/**
 * Describes an input for a message. Quotes short text, numbers and booleans, and names only the type of other
 * values. Replaces long numbers, because a card number in the wrong field must not reach an answer or a log.
 */
export function describeInput(value: unknown): string {
  if (typeof value === 'string' && value.length > maxQuoted) return `a text of ${value.length} characters`
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return withoutLongNumbers(JSON.stringify(value))
  }
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : `an ${typeof value}`
}

type Shape = Readonly<Record<string, RecordField<unknown>>>
export type RecordValues<S extends Shape> = {
  readonly [K in keyof S]: S[K] extends RecordField<infer T> ? T : never
}

interface RecordOptions {
  /** Called for each field that is not in the shape. By default, such a field is rejected as `unknown`. */
  readonly onUnknownField?: (place: FieldContext) => void
}

/** Rejects a field that is not in `shape`: it may be misspelt, or be one that only the service sets. */
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
    return place.errors.length > before ? invalidValue : (result as RecordValues<S>)
  }
  return reader(describeInputSchema(shape), read, describeAnswerSchema(shape))
}

function describeInputSchema(shape: Shape): JsonObject {
  const fields = Object.entries(shape)
  return {
    type: 'object',
    additionalProperties: false,
    required: fields.filter(([, field]) => field.absent === invalidValue).map(([name]) => name),
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
  return rejectValue(place, 'unknown', `unknown field; allowed are ${names.join(', ')}`)
}

function readField(field: RecordField<unknown>, value: unknown, place: FieldContext): unknown {
  const absent = value === undefined || value === null || (place.encoding === 'form' && value === '')
  if (!absent) return field.read(value, place)
  return field.absent === invalidValue ? rejectValue(place, 'required', 'is missing') : field.absent
}

function at(place: FieldContext, name: string): FieldContext {
  const shown = withoutLongNumbers(name.length > maxQuoted ? `${name.slice(0, maxQuoted)}…` : name)
  return { ...place, path: place.path === '' ? shown : `${place.path}.${shown}` }
}

/** Reads an input. A rejection has all errors of the input, up to `maxFieldErrors`. */
export function parseInput<T>(read: Read<T>, value: unknown, encoding: Encoding): Result<T> {
  const errors: FieldError[] = []
  const result = read(value ?? {}, { path: '', encoding, errors })
  return result === invalidValue || errors.length > 0 ? rejectFields(errors) : accept(result)
}
