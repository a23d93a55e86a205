export interface DescriptorEntry {
  readonly key: string
  readonly value: string
}

/**
 * Reads the entries of one descriptor as people write them in the console and in commands:
 * `user=alice,path=/pay`. A comma in a value is `\,` and a backslash `\\`; `=`, `,` and `%` in a key are
 * percent-encoded. Spaces before a key are ignored; all other spaces count. For invalid text, returns a text
 * that says what is wrong.
 */
export function parseDescriptorEntries(text: string): readonly DescriptorEntry[] | string {
  const entries: DescriptorEntry[] = []
  for (const part of splitParts(text)) {
    const at = part.indexOf('=')
    const key = decodeKey(withoutEscapes(part.slice(0, at)).trimStart())
    if (at < 0 || key === '')
      return `${JSON.stringify(part.slice(0, 50))} is not KEY=VALUE, such as user=alice`
    entries.push({ key, value: withoutEscapes(part.slice(at + 1)) })
  }
  return entries
}

/** Splits at commas without a backslash before them. */
function splitParts(text: string): readonly string[] {
  const parts = ['']
  for (const [piece] of text.matchAll(/\\[\\,]|,|\\|[^\\,]+/g)) {
    if (piece === ',') parts.push('')
    else parts.push(`${parts.pop()}${piece}`)
  }
  return parts
}

/**
 * Removes the backslash of `\,` and `\\`. Every other backslash is an ordinary character, as in `C:\temp`.
 */
const withoutEscapes = (text: string) => text.replaceAll(/\\([\\,])/g, '$1')

/** Decodes percent-encoded UTF-8. A percent sign that does not begin such text is an ordinary character. */
const decodeKey = (key: string) =>
  key.replaceAll(/(?:%[\da-f]{2})+/gi, encoded => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })

/** Returns the text that `parseDescriptorEntries` reads as these entries. */
export const formatDescriptorEntries = (entries: readonly DescriptorEntry[]) =>
  entries.map(({ key, value }) => `${writeKey(key)}=${value.replaceAll(/[\\,]/g, '\\$&')}`).join(',')

const writeKey = (key: string) => key.replaceAll(/[%=,]|^\s+/g, encodeURIComponent).replaceAll('\\', '\\\\')

/** Returns the values of the query parameters `descriptor` of a call for a counter, one for each entry. */
export const formatDescriptorParameters = (entries: readonly DescriptorEntry[]) =>
  entries.map(({ key, value }) => `${key.replaceAll(/[%=,+]/g, encodeURIComponent)}=${value}`)
