/** Characters that would break a line, or overwrite it in a terminal, and unpaired surrogates. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Formats text from a configuration or a request in one line: control characters are escaped as `\u{1b}`. */
export function printable(text: string): string {
  return text.replace(unprintable, character => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
