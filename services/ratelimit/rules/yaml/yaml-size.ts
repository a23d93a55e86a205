/** A text with more characters is rejected without parsing. 100,000 descriptors with the usual fields fit. */
export const maxDocumentCharacters = 16 * 1024 * 1024
export const maxLines = 2_000_000
/**
 * A text may have at most this many characters that can begin a list, a map or an entry of one. A descriptor
 * with all fields has about 15.
 */
export const maxIndicators = 1_500_000
/** A text may have at most this many documents. Only the first one is used. */
export const maxDocuments = 100

/**
 * Returns why a YAML text is too large to be parsed; undefined for any other text. Parsers create objects of
 * a hundred bytes from two characters, so that a text of a few megabytes could exhaust the memory. This
 * function reads each character once and allocates no memory. It counts indicators within texts and comments
 * too.
 */
export function findSizeProblem(text: string): string | undefined {
  if (text.length > maxDocumentCharacters) {
    return `the file has ${text.length} characters, and at most ${maxDocumentCharacters} are allowed`
  }
  let [lines, indicators, documents] = [1, 0, 1]
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case lineFeed:
      case carriageReturn:
        lines += 1
        if (lines > maxLines) return tooMany('lines', maxLines)
        if (!isDocumentMark(text, index + 1)) break
        documents += 1
        if (documents > maxDocuments) return tooMany('documents', maxDocuments)
        break
      case comma:
      case openBracket:
      case openBrace:
        indicators += 1
        break
      case colon:
      case dash:
      case question:
        if (endsWord(text.charCodeAt(index + 1))) indicators += 1
        break
    }
    if (indicators > maxIndicators) return tooMany('lists, maps and entries', maxIndicators)
  }
  return undefined
}

function tooMany(what: string, max: number): string {
  return `the file has too many ${what}: at most ${max} are allowed`
}

function isDocumentMark(text: string, index: number): boolean {
  return (
    (text.startsWith('---', index) || text.startsWith('...', index)) && endsWord(text.charCodeAt(index + 3))
  )
}

const [tab, lineFeed, carriageReturn, space] = [9, 10, 13, 32]
const [comma, dash, colon, question] = [44, 45, 58, 63]
const [openBracket, closeBracket, openBrace, closeBrace] = [91, 93, 123, 125]
const wordEnds = new Set([
  tab,
  lineFeed,
  carriageReturn,
  space,
  comma,
  openBracket,
  closeBracket,
  openBrace,
  closeBrace,
])

/** Returns whether a word ends before this character code. The end of the text has the code NaN. */
function endsWord(code: number): boolean {
  return Number.isNaN(code) || wordEnds.has(code)
}
