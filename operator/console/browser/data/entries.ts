/** One entry of a descriptor. */
export interface Entry {
  readonly key: string
  readonly value: string
}

/**
 * Reads the entries of one descriptor as the command `tollway` does: `user=alice,path=/pay`, with `\,` for a
 * comma and `\\` for a backslash. Returns a text that names what is wrong if it cannot.
 */
export function parseEntries(text: string): readonly Entry[] | string {
  if (text.trim() === '') return 'the entries are empty; expected KEY=VALUE, such as user=alice'
  const entries: Entry[] = []
  for (const part of text.match(/(?:\\.|[^,\\])+|\\$/gs) ?? []) {
    const plain = part.replaceAll(/\\(.)/gs, '$1').trim()
    const at = plain.indexOf('=')
    if (at < 1) return `${JSON.stringify(plain.slice(0, 50))} is not KEY=VALUE`
    entries.push({ key: plain.slice(0, at), value: plain.slice(at + 1) })
  }
  return entries
}

/** Returns a text that `parseEntries` reads as these entries. */
export const writeEntries = (entries: readonly Entry[]) =>
  entries.map(({ key, value }) => `${key}=${value}`.replaceAll(/[\\,]/g, '\\$&')).join(',')

/** The parameters `descriptor` of a call for a counter. */
export const descriptorParameters = (entries: readonly Entry[]) =>
  entries.map(({ key, value }) => `${key.replaceAll(/[%=,+]/g, encodeURIComponent)}=${value}`)
