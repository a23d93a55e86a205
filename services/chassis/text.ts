/** Returns `1 message`, `2 messages`. */
export const pluralize = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`

/** Returns the text, or its start and `…`, with at most `maxCharacters` UTF-16 units. */
export function shorten(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text
  // The cut may divide a surrogate pair, whose first half is then removed.
  return `${text.slice(0, maxCharacters - 1).replace(/\p{Cs}$/u, '')}…`
}

/** Returns the start of a text in quotation marks, with escapes for control characters. */
export const quote = (text: string, maxCharacters = 200): string =>
  JSON.stringify(text.slice(0, maxCharacters))
