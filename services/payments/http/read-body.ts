import { parseForm } from '../domain/input/form.ts'
import type { Encoding } from '../domain/input/record.ts'
import { accept, type Result, reject } from '../domain/rejections.ts'

/** The maximum size of a request body in bytes. The server stops reading a larger one and answers 413. */
export const maxRequestBytes = 1024 * 1024

export interface Body {
  readonly encoding: Encoding
  readonly value: unknown
  readonly text: string
}

export const noBody: Body = { encoding: 'json', value: undefined, text: '' }

const encodings: ReadonlyMap<string, Encoding> = new Map([
  ['application/json', 'json'],
  ['application/x-www-form-urlencoded', 'form'],
])

/** The accepted charsets: the names of UTF-8, and ASCII, which is a subset. */
const charsets = new Set(['utf-8', 'utf8', 'us-ascii'])

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a body as JSON or a form, according to the content type, whose case and parameters other than
 * `charset` are ignored. Rejects other types and charsets.
 */
export function parseBody(contentType: string | undefined, bytes: Uint8Array): Result<Body> {
  if (bytes.length === 0) return accept(noBody)
  const [type = '', ...parameters] = (contentType ?? '').split(';').map(part => part.trim().toLowerCase())
  const encoding = encodings.get(type)
  if (encoding === undefined || !parameters.every(isKnownCharset)) return reject('unsupported_media_type')
  const text = decode(bytes)
  if (text === undefined) return reject('malformed_body', 'The body is not UTF-8.')
  return encoding === 'form' ? fromForm(text) : fromJson(text)
}

function fromForm(text: string): Result<Body> {
  const fields = parseForm(text)
  return fields.ok ? accept({ encoding: 'form', value: fields.value, text }) : fields
}

function isKnownCharset(parameter: string): boolean {
  const [, charset] = /^charset="?([^"]*)"?$/.exec(parameter) ?? []
  return charset === undefined || charsets.has(charset)
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

function fromJson(text: string): Result<Body> {
  const read = readJson(text)
  if ('fault' in read) return reject('malformed_body', read.fault)
  return accept({ encoding: 'json', value: read.value, text })
}

/** The maximum number of nested levels of lists and objects in a body. */
const maxJsonDepth = 32

/**
 * Parses JSON. Returns a fault for invalid JSON, for more than `maxJsonDepth` levels, and for a name that
 * occurs twice in one object, because parsers differ in which value they take (RFC 8259, section 4).
 */
function readJson(text: string): { readonly value: unknown } | { readonly fault: string } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { fault: 'The body is not JSON.' }
  }
  const fault = findFault(text)
  return fault === undefined ? { value } : { fault }
}

/** The names found so far in an object whose end is not reached; null for a list. */
type Open = Set<string> | null

/**
 * Returns the fault of a text for too many levels or a repeated name. Scans only strings, brackets and
 * commas.
 *
 * @param text valid JSON
 */
function findFault(text: string): string | undefined {
  const open: Open[] = []
  let isName = false
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (character === '{' || character === '[') {
      if (open.length === maxJsonDepth) return `The body is nested deeper than ${maxJsonDepth} levels.`
      open.push(character === '{' ? new Set() : null)
      isName = character === '{'
    } else if (character === '}' || character === ']') {
      open.pop()
      isName = false
    } else if (character === ',') isName = open.at(-1) !== null
    else if (character === '"') {
      const end = endOfString(text, at)
      if (isName && isSecond(open.at(-1), text.slice(at, end + 1))) return 'The body has a name twice.'
      isName = false
      at = end
    }
  }
  return undefined
}

function endOfString(text: string, at: number): number {
  let end = at + 1
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1
  return end
}

function isSecond(names: Open | undefined, quoted: string): boolean {
  // Decodes escapes, because `"a"` and `"\u0061"` are the same name.
  const name: string = quoted.includes('\\') ? JSON.parse(quoted) : quoted.slice(1, -1)
  if (names?.has(name)) return true
  names?.add(name)
  return false
}
