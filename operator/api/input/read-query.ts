import { invalid } from '../api-error.ts'

const maxParameters = 200

/**
 * Reads the query of a URL: the values of each name, in order. A value of `descriptor` stays as it was sent.
 *
 * @throws ApiError with 400 for text that is not percent-encoded UTF-8
 */
export function readQuery(query: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  const pairs = query.split('&').filter(pair => pair !== '')
  if (pairs.length > maxParameters) {
    throw invalid([
      { path: '', message: `has ${pairs.length} parameters; at most ${maxParameters} are allowed` },
    ])
  }
  for (const pair of pairs) {
    const end = pair.includes('=') ? pair.indexOf('=') : pair.length
    const name = decode(pair.slice(0, end), 'the query')
    const raw = pair.slice(end + 1)
    const values = found.get(name) ?? []
    values.push(name === 'descriptor' ? raw : decode(raw, name))
    found.set(name, values)
  }
  return found
}

/**
 * Reads one entry of a descriptor: KEY=VALUE with `=` and `,` in the key percent-encoded, as the value of a
 * query parameter. A client may percent-encode the pair as a whole once more.
 *
 * @param raw the value as it was sent
 * @throws ApiError with 400
 */
export function readEntry(raw: string, field: string): { readonly key: string; readonly value: string } {
  const isEncodedWhole = !raw.includes('=')
  const pair = isEncodedWhole ? decode(raw, field) : raw
  const end = pair.indexOf('=')
  if (end <= 0) {
    const message = `${JSON.stringify(pair.slice(0, 100))} is not allowed; expected KEY=VALUE`
    throw invalid([{ path: field, message }])
  }
  const key = decode(pair.slice(0, end), field)
  const value = pair.slice(end + 1)
  return { key, value: isEncodedWhole ? value : decode(value, field) }
}

function decode(text: string, field: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    const message = `${JSON.stringify(text.slice(0, 100))} is not percent-encoded UTF-8`
    throw invalid([{ path: field, message }])
  }
}
