/** What would break a line, or write over it in a terminal, and halves of characters. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Text from a configuration or a request in one line: control characters are escaped, as `\u{1b}`. */
export function printable(text: string): string {
  return text.replace(unprintable, character => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
