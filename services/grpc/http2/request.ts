import type { HeaderBlock } from './hpack/hpack-decoder.ts'

/** The head of a request that is valid by RFC 9113 (8.1 to 8.3). */
export interface RequestHead {
  readonly method: string
  readonly path: string
  /** Names and values alternate, without pseudo-header fields. */
  readonly fields: readonly string[]
  readonly contentLength: number | undefined
  /** True if the fields exceed the limit, and only the first are here. */
  readonly truncated: boolean
}

const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
/** Matches a value with NUL, CR or LF, or with a space or tab at either end (RFC 9113, 8.2.1). */
const forbiddenInValue = /[\0\r\n]|^[ \t]|[ \t]$/
/** Fields about the connection, which HTTP/2 forbids (RFC 9113, 8.2.2). */
const connectionFields = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])
const requestPseudoFields = new Set([':method', ':scheme', ':authority', ':path'])

/** Returns undefined for a malformed request, which is a stream error (RFC 9113, 8.1.1). */
export function parseRequest({ fields, truncated }: HeaderBlock): RequestHead | undefined {
  const pseudo = new Map<string, string>()
  const regular: string[] = []
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? ''
    const value = fields[index + 1] ?? ''
    if (forbiddenInValue.test(value)) return undefined
    if (name.startsWith(':')) {
      if (regular.length > 0 || pseudo.has(name) || !requestPseudoFields.has(name)) return undefined
      pseudo.set(name, value)
    } else {
      if (!isRegularField(name, value)) return undefined
      regular.push(name, value)
    }
  }
  const method = pseudo.get(':method')
  const path = pseudo.get(':path')
  const contentLength = parseContentLength(regular)
  if (!truncated && (!method || !path || !pseudo.has(':scheme'))) return undefined
  if (Number.isNaN(contentLength)) return undefined
  return { method: method ?? '', path: path ?? '', fields: regular, contentLength, truncated }
}

/** Returns whether the fields are valid trailers: trailers have no pseudo-header fields (RFC 9113, 8.1). */
export function areTrailers({ fields }: HeaderBlock): boolean {
  for (let index = 0; index < fields.length; index += 2) {
    if (!isRegularField(fields[index] ?? '', fields[index + 1] ?? '')) return false
  }
  return true
}

function isRegularField(name: string, value: string): boolean {
  return fieldName.test(name) && !connectionFields.has(name) && (name !== 'te' || value === 'trailers')
}

/** Returns undefined without a content-length, and NaN if it is invalid or has two different values. */
function parseContentLength(fields: readonly string[]): number | undefined {
  let length: number | undefined
  for (let index = 0; index < fields.length; index += 2) {
    if (fields[index] !== 'content-length') continue
    const value = fields[index + 1] ?? ''
    const parsed = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN
    if (length !== undefined && length !== parsed) return Number.NaN
    length = parsed
  }
  return length
}
