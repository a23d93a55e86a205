const places = 64
/** Longer texts are hardly ever the same ones. */
const maxWordLength = 64

/**
 * The strings that nearly all requests share, as domains and keys. One that is known costs no memory, and its hash,
 * for which a map asks, is known too. Callers can fill it with what they like: then a word is made anew, as it would
 * be without.
 */
export class WordMemory {
  readonly #words: string[] = Array(places).fill('')

  /** The word whose ASCII bytes these are, if it is known. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    if (start === end) return ''
    const word = this.#words[placeOf(end - start, bytes[start] ?? 0, bytes[end - 1] ?? 0)] ?? ''
    if (word.length !== end - start) return undefined
    for (let at = start; at < end; at++) {
      if (word.charCodeAt(at - start) !== bytes[at]) return undefined
    }
    return word
  }

  /** Keeps a short text of ASCII, which came in that many bytes. Returns one that equals it. */
  keep(text: string, bytes: number): string {
    // In UTF-8 only ASCII has as many bytes as units.
    if (bytes > maxWordLength || text.length < bytes) return text
    // Of its own: this one may be cut out of a whole request.
    const word = Buffer.from(text, 'latin1').toString('latin1')
    this.#words[placeOf(bytes, word.charCodeAt(0), word.charCodeAt(bytes - 1))] = word
    return word
  }
}

function placeOf(length: number, first: number, last: number): number {
  return (length * 7 + first * 3 + last) % places
}
