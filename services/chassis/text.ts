/** `1 message`, `2 messages`: a number with its noun in singular or plural. */
export const pluralize = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`

/** Returns the text if it has at most this many characters, else its start with `…`. */
export function shorten(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text
  // The cut may leave the first surrogate of a pair.
  return `${text.slice(0, maxCharacters - 1).replace(/\p{Cs}$/u, '')}…`
}

/** Returns the start of a text in quotation marks, with escapes for control characters. */
export const quote = (text: string, maxCharacters = 200): string =>
  JSON.stringify(text.slice(0, maxCharacters))
