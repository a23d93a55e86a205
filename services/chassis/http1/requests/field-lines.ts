import { Refusal } from '../refusal.ts'
import { carriageReturn, colon, lineFeed, skip, textOctets, tokenOctets } from './octets.ts'

/** Called for each line with the offsets of its name, its colon and the end of its value. */
export type OnField = (bytes: Buffer, start: number, colonAt: number, end: number) => void

/**
 * Parses lines of `name: value` up to the empty one (RFC 9112, 5): the headers of a request, or the trailers
 * of a body. Folded lines, white space before the colon, control characters and bare line feeds are rejected,
 * since another server may parse them differently. `read` may be called again when more bytes have arrived,
 * and continues.
 */
export class FieldLines {
  readonly #maxFields: number
  readonly #onField: OnField
  #fields = 0
  /**
   * Offsets from `base` of the current line, of the first byte that was not scanned, and of the colon (0 for
   * none yet).
   */
  #line = 0
  #scan = 0
  #colonAt = 0

  constructor(maxFields: number, onField: OnField) {
    this.#maxFields = maxFields
    this.#onField = onField
  }

  /** The first line begins `offset` bytes after `base`. */
  begin(offset: number): void {
    this.#fields = 0
    this.#save(offset, offset, 0)
  }

  /**
   * Returns the offset after the empty line, or 0 when more bytes are needed.
   *
   * @throws Refusal at the first invalid octet
   */
  read(bytes: Buffer, base: number, end: number): number {
    let line = base + this.#line
    let at = base + this.#scan
    let colonAt = this.#colonAt === 0 ? 0 : base + this.#colonAt
    for (;;) {
      if (colonAt === 0) {
        at = skip(tokenOctets, bytes, at, end)
        if (at >= end) break
        if (at === line && bytes[at] === carriageReturn) {
          if (at + 1 >= end) break
          checkLineFeed(bytes[at + 1])
          return at + 2
        }
        checkName(bytes[at], at - line)
        colonAt = at
        at += 1
      }
      at = skip(textOctets, bytes, at, end)
      if (at >= end) break
      if (bytes[at] !== carriageReturn) throw new Refusal(400, 'a header has a control character')
      if (at + 1 >= end) break
      checkLineFeed(bytes[at + 1])
      this.#count()
      this.#onField(bytes, line, colonAt, at)
      at += 2
      line = at
      colonAt = 0
    }
    this.#save(line - base, at - base, colonAt === 0 ? 0 : colonAt - base)
    return 0
  }

  #count(): void {
    this.#fields += 1
    if (this.#fields > this.#maxFields)
      throw new Refusal(431, `there are more than ${this.#maxFields} headers`)
  }

  #save(line: number, scan: number, colonAt: number): void {
    this.#line = line
    this.#scan = scan
    this.#colonAt = colonAt
  }
}

function checkName(octet: number | undefined, length: number): void {
  if (octet !== colon || length === 0)
    throw new Refusal(400, 'a header does not begin with a name and a colon')
}

function checkLineFeed(octet: number | undefined): void {
  if (octet !== lineFeed) throw new Refusal(400, 'a carriage return is not followed by a line feed')
}
