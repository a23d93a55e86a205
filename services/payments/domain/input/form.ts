import { accept, type Rejected, type Result, reject } from '../rejections.ts'
import { describeInput } from './record.ts'

/** The maximum number of fields in a form, and of levels in the name of a field: `a[b][c]` has 3. */
const maxFormFields = 500
const maxFormDepth = 10

const namePattern = /^([^[\]]+)((?:\[[^[\]]+\])*)$/

/**
 * Reads the fields of a form, `application/x-www-form-urlencoded`, with names in brackets as objects:
 * `company[country]=DK` is `{company: {country: 'DK'}}`. Every value is text. A field that occurs twice, or
 * as text and as an object, is rejected, because one of the two values would be lost.
 */
export function parseForm(body: string): Result<Readonly<Record<string, unknown>>> {
  const result: Record<string, unknown> = {}
  const pairs = body.split('&', maxFormFields + 1).filter(pair => pair !== '')
  if (pairs.length > maxFormFields) return malformed(`has more than ${maxFormFields} fields`)
  for (const pair of pairs) {
    const split = pair.indexOf('=')
    const name = decode(split === -1 ? pair : pair.slice(0, split))
    const value = decode(split === -1 ? '' : pair.slice(split + 1))
    if (name === undefined || value === undefined)
      return malformed('has a percent sign without two hexadecimal digits')
    const path = splitName(name)
    if (path === undefined) return malformed('has a name with unmatched brackets, or too many of them')
    if (!put(result, path, value)) return malformed(`has the field ${describeInput(name)} more than once`)
  }
  return accept(result)
}

function malformed(message: string): Rejected {
  return reject('malformed_body', `The form ${message}.`)
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/**
 * Splits `a[b][c]` into a, b and c. Returns undefined for a name with wrong brackets or too many levels, and
 * for one with `__proto__`, which would set the prototype of the object and not a field.
 */
function splitName(name: string): readonly string[] | undefined {
  const [, first, brackets = ''] = namePattern.exec(name) ?? []
  if (first === undefined) return undefined
  const path = [
    first,
    ...brackets
      .slice(1, -1)
      .split('][')
      .filter(part => part !== ''),
  ]
  return path.length > maxFormDepth || path.includes('__proto__') ? undefined : path
}

function put(
  target: Record<string, unknown>,
  [name = '', ...rest]: readonly string[],
  value: string,
): boolean {
  const isThere = Object.hasOwn(target, name)
  if (rest.length === 0) {
    if (!isThere) target[name] = value
    return !isThere
  }
  if (!isThere) target[name] = {}
  const inner = target[name]
  if (typeof inner !== 'object' || inner === null) return false
  return put(inner as Record<string, unknown>, rest, value)
}
