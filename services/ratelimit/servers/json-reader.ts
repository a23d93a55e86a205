import { RequestError } from '../limiter/decision.ts'

const openingBrace = 0x7b
const closingBrace = 0x7d
const openingBracket = 0x5b
const closingBracket = 0x5d
const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const backslash = 0x5c
const space = 0x20
const numberText = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const strictUtf8 = new TextDecoder('utf-8', { fatal: true })
const byteOrderMark = Buffer.from('\ufeff')
const nullOctets = Buffer.from('null')
const trueOctets = Buffer.from('true')
const falseOctets = Buffer.from('false')

/** The kind of a value, by its first character. */
const kinds: Readonly<Record<string, string>> = {
  '"': 'a string',
  '{': 'an object',
  '[': 'a list',
  t: 'true',
  f: 'false',
  n: 'null',
}

interface Fields<Name extends string> {
  readonly spellings: readonly Spelling<Name>[]
  readonly allowed: string
}

interface Spelling<Name extends string> {
  readonly name: Name
  readonly spelling: string
  readonly octets: Buffer
  /** The bit that stands for the name in `JsonReader.#seen`. */
  readonly bit: number
}

/** @param names in lowerCamelCase; each may also be spelled in snake_case, as in its .proto file */
export function defineFields<Name extends string>(...names: readonly Name[]): Fields<Name> {
  const spellings = names.flatMap((name, index) => {
    const snake = name.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    return [...new Set([name, snake])].map(spelling => ({
      name,
      spelling,
      octets: Buffer.from(`"${spelling}"`),
      bit: 1 << index,
    }))
  })
  return { spellings, allowed: names.join(', ').replace(/, (?=[^,]+$)/, ' or ') }
}

/**
 * Parses a JSON text (RFC 8259) value by value: the caller asks for a value of the kind that it expects, and
 * any other value ends the parsing. No value is ever skipped, and no value can be nested deeper than the
 * structure that the caller expects. `JSON.parse` alone takes half again as long as parsing a whole request,
 * and hides names that occur twice.
 *
 * It accepts the same texts as `JSON.parse`. For other texts every method throws a `RequestError` with the
 * position, the value that was found, and the allowed values.
 */
export class JsonReader {
  readonly #bytes: Buffer
  /** The whole text, in which each byte is a character; undefined if it is not ASCII. */
  readonly #asciiText: string | undefined
  #at = 0
  /** Whether no member of the current object or list was read yet. */
  #isFresh = false
  /** The current position: a name or an index for each level. Only the first `#depth` items are valid. */
  readonly #path: (string | number)[] = ['', 0, '', 0, '']
  /** The bits of the names that were read of the object at each level. */
  readonly #seen: number[] = [0, 0, 0, 0, 0]
  #depth = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    const text = decodeUtf8(bytes)
    this.#asciiText = text.length === bytes.length ? text : undefined
    if (this.#asciiText === undefined && this.#isAt(0, byteOrderMark)) this.#at = byteOrderMark.length
  }

  beginObject(): void {
    if (this.#next() !== openingBrace) throw this.wrongValue('an object')
    this.#begin()
  }

  beginList(): void {
    if (this.#next() !== openingBracket) throw this.wrongValue('a list')
    this.#begin()
    this.#path[this.#depth - 1] = -1
  }

  /**
   * Returns the next field of the object, before its value; undefined at the object's end. Throws for a name
   * that occurs twice, even in different spellings.
   */
  nextField<Name extends string>(fields: Fields<Name>): Name | undefined {
    if (!this.#hasNext(closingBrace)) return undefined
    if (this.#next() !== quote) throw this.#notJson('a name in double quotes')
    const level = this.#depth - 1
    const { name, bit } = this.#plainName(fields) ?? this.#escapedName(fields)
    this.#path[level] = name
    if (this.#next() !== colon) throw this.#notJson('a colon')
    this.#at += 1
    const seen = this.#seen[level] ?? 0
    if ((seen & bit) !== 0) throw this.wrong('a second value', 'one')
    this.#seen[level] = seen | bit
    return name
  }

  /** Moves to the next item of the list; returns false at the list's end. */
  nextItem(): boolean {
    if (!this.#hasNext(closingBracket)) return false
    const index = this.#path[this.#depth - 1]
    this.#path[this.#depth - 1] = typeof index === 'number' ? index + 1 : 0
    return true
  }

  skipNull(): boolean {
    return this.#skipWord(nullOctets)
  }

  boolean(): boolean {
    if (this.#skipWord(trueOctets)) return true
    if (this.#skipWord(falseOctets)) return false
    throw this.wrongValue('true or false')
  }

  /** Reads a string. Throws for unpaired surrogates, which have no form in UTF-8. */
  string(): string {
    if (this.#next() !== quote) throw this.wrongValue('a string')
    const text = this.#string()
    if (!text.isWellFormed()) throw this.wrong('half of a surrogate pair', 'whole characters')
    return text
  }

  /** Reads a number, rounded to a double, or a string. */
  numberOrString(allowed: string): number | string {
    if (this.#next() === quote) return this.#string()
    const start = this.#at
    let end = start
    while (isInNumber(this.#bytes[end])) end += 1
    if (end === start) throw this.wrongValue(allowed)
    const text = this.#slice(start, end)
    if (!numberText.test(text)) throw this.#notJson('a number as JSON writes it')
    this.#at = end
    return Number(text)
  }

  end(): void {
    if (this.#next() !== -1) throw this.#notJson('the end')
  }

  /** Returns the error for the next value, whose kind is not allowed. */
  wrongValue(allowed: string): RequestError {
    const octet = this.#next()
    if (octet === -1) return this.wrong('the end of the text', allowed)
    const number = isInNumber(octet) ? 'a number' : 'an invalid character'
    return this.wrong(kinds[String.fromCharCode(octet)] ?? number, allowed)
  }

  wrong(found: string, allowed: string): RequestError {
    const path = this.#pathText() || 'the request'
    return new RequestError(`${path}: ${found} was found, ${allowed} is allowed`, true)
  }

  #skipWord(octets: Buffer): boolean {
    this.#next()
    if (!this.#isAt(this.#at, octets)) return false
    this.#at += octets.length
    return true
  }

  #begin(): void {
    this.#at += 1
    this.#isFresh = true
    this.#seen[this.#depth] = 0
    this.#depth += 1
  }

  /** Finds the next name if it is written without escapes. Compares bytes, and creates no string. */
  #plainName<Name extends string>({ spellings }: Fields<Name>): Spelling<Name> | undefined {
    for (const spelling of spellings) {
      if (!this.#isAt(this.#at, spelling.octets)) continue
      this.#at += spelling.octets.length
      return spelling
    }
    return undefined
  }

  #isAt(start: number, octets: Buffer): boolean {
    const bytes = this.#bytes
    for (let index = 0; index < octets.length; index += 1) {
      if (bytes[start + index] !== octets[index]) return false
    }
    return true
  }

  /** Finds the next name, which may have escapes. Throws for an unknown name. */
  #escapedName<Name extends string>({ spellings, allowed }: Fields<Name>): Spelling<Name> {
    const text = this.#string()
    const known = spellings.find(({ spelling }) => spelling === text)
    if (known !== undefined) return known
    this.#path[this.#depth - 1] = text
    throw this.wrong('an unknown field', allowed)
  }

  /** Returns whether another member follows. Skips the comma before it, or the closing bracket. */
  #hasNext(closing: number): boolean {
    const code = this.#next()
    const isFresh = this.#isFresh
    this.#isFresh = false
    if (code === closing) {
      this.#at += 1
      this.#depth -= 1
      return false
    }
    if (isFresh) return true
    if (code !== comma) throw this.#notJson(`a comma or ${String.fromCharCode(closing)}`)
    this.#at += 1
    return true
  }

  /** Skips white space, and returns the character after it without skipping that one; -1 at the end. */
  #next(): number {
    const bytes = this.#bytes
    let code = bytes[this.#at] ?? -1
    while (code === space || code === 0x0a || code === 0x0d || code === 0x09) {
      this.#at += 1
      code = bytes[this.#at] ?? -1
    }
    return code
  }

  #string(): string {
    const bytes = this.#bytes
    const start = this.#at + 1
    let at = start
    for (;;) {
      const code = bytes[at] ?? -1
      if (code === quote) {
        this.#at = at + 1
        return this.#slice(start, at)
      }
      if (code === backslash) return this.#escapedString(start, at)
      if (!(code >= space)) throw this.#notJson('a string that ends and has no control character')
      at += 1
    }
  }

  /** Strings with escapes are rare, so `JSON.parse` decodes them. */
  #escapedString(start: number, firstEscape: number): string {
    const bytes = this.#bytes
    let end = firstEscape
    while (end < bytes.length && bytes[end] !== quote) end += bytes[end] === backslash ? 2 : 1
    try {
      const text: string = JSON.parse(this.#slice(start - 1, end + 1))
      this.#at = end + 1
      return text
    } catch {
      throw this.#notJson('a string with the escapes of JSON')
    }
  }

  #slice(start: number, end: number): string {
    return this.#asciiText?.substring(start, end) ?? this.#bytes.toString('utf8', start, end)
  }

  #notJson(expected: string): RequestError {
    const path = this.#pathText()
    const where = `${path === '' ? '' : `after ${path}, `}at byte ${this.#at}`
    return new RequestError(`the request is not JSON: ${where}, ${expected} is missing`, true)
  }

  /** Returns a path such as `descriptors[0].entries[2].key`. */
  #pathText(): string {
    let path = ''
    for (const part of this.#path.slice(0, this.#depth)) {
      if (typeof part === 'number') path += part < 0 ? '' : `[${part}]`
      else if (part !== '')
        path += `${path === '' ? '' : '.'}${/^\w{1,40}$/.test(part) ? part : printableText(part)}`
    }
    return path
  }
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    throw new RequestError('the request is not UTF-8', true)
  }
}

/** Returns whether the byte is a digit, a sign, the point or the exponent's letter. */
function isInNumber(octet: number | undefined): boolean {
  if (octet === undefined) return false
  return (
    (octet >= 0x30 && octet <= 0x39) ||
    octet === 0x2d ||
    octet === 0x2b ||
    octet === 0x2e ||
    (octet | 0x20) === 0x65
  )
}

const longestText = 40

/** Makes a text of a caller short and safe for a terminal. */
export function printableText(text: string): string {
  return JSON.stringify(text.slice(0, longestText)).replaceAll(/[^ -~]/g, '?')
}
