import { isObject } from '@tollway/chassis/is-object.ts'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { hasCardNumber } from '../card.ts'
import { rejectCardNumber } from './fields.ts'
import { describeInput, type Reader, reader, rejectValue } from './record.ts'

/** The maximum number of nested levels of lists and objects. The custom object itself is the first level. */
const maxCustomDepth = 8
/** The maximum size of the custom object in bytes, as JSON in UTF-8. */
const maxCustomBytes = 8192

const schema = {
  type: 'object',
  description: `Any JSON with at most ${maxCustomBytes} bytes, which is returned unchanged`,
}

/**
 * Reads any JSON object within the limits. The service stores and returns it without interpreting its
 * content. The reader rejects values that databases and programs handle badly: the character U+0000, unpaired
 * surrogates, numbers that JSON cannot express, and a field named `__proto__`. The reader also rejects text
 * that could contain a card number.
 */
export const custom: Reader<JsonObject> = reader(schema, (value, place) => {
  if (!isObject(value)) return rejectValue(place, 'type', `${describeInput(value)} is not an object`)
  const fault = findFault(value, 1)
  if (fault === 'depth') {
    return rejectValue(place, 'too_deep', `is nested deeper than ${maxCustomDepth} levels`)
  }
  if (fault !== undefined) return rejectValue(place, 'format', fault)
  const json = JSON.stringify(value)
  if (hasCardNumber(json)) return rejectCardNumber(place)
  const bytes = Buffer.byteLength(json, 'utf8')
  if (bytes > maxCustomBytes) {
    return rejectValue(place, 'too_long', `has ${bytes} bytes; at most ${maxCustomBytes} are allowed`)
  }
  return value as JsonObject
})

function findFault(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return findTextFault(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return 'has a number that JSON cannot express'
  if (typeof value !== 'object' || value === null)
    return isPlain(value) ? undefined : 'has a value that is not JSON'
  if (depth > maxCustomDepth) return 'depth'
  for (const [name, inner] of Object.entries(value)) {
    const fault = (Array.isArray(value) ? undefined : findNameFault(name)) ?? findFault(inner, depth + 1)
    if (fault !== undefined) return fault
  }
  return undefined
}

function isPlain(value: unknown): value is Json {
  return value === null || typeof value === 'boolean' || typeof value === 'number'
}

function findNameFault(name: string): string | undefined {
  return name === '__proto__' ? 'has a field named __proto__' : findTextFault(name)
}

function findTextFault(text: string): string | undefined {
  if (text.includes('\u0000')) return 'has the character U+0000'
  return text.isWellFormed() ? undefined : 'has broken Unicode'
}
