import { parseForm } from '../../domain/input/form.ts'
import type { Encoding } from '../../domain/input/record.ts'
import { isRefused, type Refused, refuse } from '../../domain/refusals.ts'
import { readJson } from './read-json.ts'

/** Larger bodies are refused while they come. */
export const maxBodyBytes = 1024 * 1024

export interface Body {
  readonly encoding: Encoding
  /** Undefined for no body. */
  readonly value: unknown
  /** The body as it was received: equal requests have equal texts. */
  readonly text: string
}

export const noBody: Body = { encoding: 'json', value: undefined, text: '' }

const encodings: ReadonlyMap<string, Encoding> = new Map([
  ['application/json', 'json'],
  ['application/x-www-form-urlencoded', 'form'],
])

/** The character sets that are read as UTF-8: its names, and its subset ASCII. */
const charsets = new Set(['utf-8', 'utf8', 'us-ascii'])

const decoder = new TextDecoder('utf-8', { fatal: true })

/** A body as its content type says; the type's case, spaces and other parameters do not matter. */
export function readBody(contentType: string | undefined, bytes: Uint8Array): Body | Refused {
  if (bytes.length === 0) return noBody
  const [type = '', ...parameters] = (contentType ?? '').split(';').map(part => part.trim().toLowerCase())
  const encoding = encodings.get(type)
  if (encoding === undefined || !parameters.every(isKnownCharset)) return refuse('unsupported_media_type')
  const text = decode(bytes)
  if (text === undefined) return refuse('malformed_body', 'The body is not UTF-8.')
  return encoding === 'form' ? fromForm(text) : fromJson(text)
}

function fromForm(text: string): Body | Refused {
  const fields = readForm(text)
  return 'refused' in fields ? fields.refused : { encoding: 'form', value: fields.value, text }
}

/** A form or a query. One may have a field `refusal`, whose value then is text, or fields of text. */
export function readForm(text: string): { readonly value: unknown } | { readonly refused: Refused } {
  const form = parseForm(text)
  const refusal = isRefused(form) ? form.refusal : undefined
  return isRefused(form) && typeof refusal?.status === 'number' ? { refused: form } : { value: form }
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

function fromJson(text: string): Body | Refused {
  const read = readJson(text)
  if ('fault' in read) return refuse('malformed_body', read.fault)
  return { encoding: 'json', value: read.value, text }
}
