import { shorten } from '@tollway/chassis/text.ts'
import { isFields, type Schema } from './schema.ts'

/** The longest text that a message shows of a value; a longer one is cut and ends with an ellipsis. */
export const maxShownCharacters = 64

/** Characters that could break the line or control a terminal, and unpaired surrogates. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Returns a value as messages show it: `"minuet"`, `4294967296`, `a list`. */
export function describeFound(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'string') return show(JSON.stringify(value))
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return isFields(value) ? 'a map' : 'an object that JSON does not have'
  return show(String(value))
}

/** Returns in words which values a schema allows: `a string of 1 to 253 characters`. */
export function describeAllowed(schema: Schema): string {
  const { type, minLength = 0, maxLength, minimum, maximum, minItems, maxItems } = schema
  if (schema.enum !== undefined) return `${schema.enum.length > 1 ? 'one of ' : ''}${schema.enum.join(', ')}`
  switch (type) {
    case 'string':
      if (maxLength === undefined) return 'a string'
      return minLength === 0
        ? `a string of at most ${maxLength} characters`
        : `a string of ${minLength} to ${maxLength} characters`
    case 'integer':
      if (minimum === undefined || maximum === undefined) return 'a whole number'
      return `a whole number from ${minimum} to ${maximum}`
    case 'boolean':
      return 'true or false'
    case 'array':
      if (minItems !== undefined) return `a list of ${minItems} to ${maxItems} items`
      return maxItems === undefined ? 'a list' : `a list of at most ${maxItems} items`
    case 'object':
      return 'a map'
    default:
      return 'any value'
  }
}

/** Joins the path of an object and the name of one of its fields: `spec` and `domain` make `spec.domain`. */
export function joinFieldPath(parent: string, name: string): string {
  const plain = /^[A-Za-z_$][\w$-]*$/.test(name) && name.length <= maxShownCharacters
  if (!plain) return `${parent}[${show(JSON.stringify(name))}]`
  return parent === '' ? name : `${parent}.${name}`
}

function show(text: string): string {
  const shown = text.replace(unprintable, character => `\\u{${character.codePointAt(0)?.toString(16)}}`)
  return shorten(shown, maxShownCharacters)
}
