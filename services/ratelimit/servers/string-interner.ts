const places = 64
/** Longer texts rarely repeat. */
const maxWordLength = 64

/**
 * An interner of the strings that most requests share, such as domains and keys. A known string allocates no
 * memory, and its hash for maps is already computed. Callers can fill the table with any strings; other
 * strings are then created anew, as without it.
 */
export class StringInterner {
  readonly #words: string[] = Array(places).fill('')

  /** Returns the word with these ASCII bytes, if it is known. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    if (start === end) return ''
    const word = this.#words[placeOf(end - start, bytes[start] ?? 0, bytes[end - 1] ?? 0)] ?? ''
    if (word.length !== end - start) return undefined
    for (let at = start; at < end; at++) {
      if (word.charCodeAt(at - start) !== bytes[at]) return undefined
    }
    return word
  }

  /** Keeps a short ASCII text that was decoded from `bytes` bytes. Returns an equal text. */
  keep(text: string, bytes: number): string {
    // Only ASCII texts have as many bytes in UTF-8 as units.
    if (bytes > maxWordLength || text.length < bytes) return text
    // A copy, since this text may be a substring of a whole request.
    const word = Buffer.from(text, 'latin1').toString('latin1')
    this.#words[placeOf(bytes, word.charCodeAt(0), word.charCodeAt(bytes - 1))] = word
    return word
  }
}

function placeOf(length: number, first: number, last: number): number {
  return (length * 7 + first * 3 + last) % places
}
