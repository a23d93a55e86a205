import { type HeaderBlock, HpackDecoder } from './hpack-decoder.ts'

/** So many blocks are remembered for a connection; then it begins anew. */
const maxRemembered = 64
/** Longer blocks are not remembered: what is sent often is short. */
const maxRememberedBytes = 512

/**
 * The header blocks that a connection receives. What a block means to `parse` is remembered by its bytes, as
 * callers send the same few over and over. That is right only while the dynamic table stays as it is: every
 * change of it empties the memory.
 *
 * Most blocks are the one before once more. To compare them byte by byte takes a tenth of what it takes to make a
 * text of them and to look that up.
 */
export class HeaderBlocks<Meaning> {
  readonly #decoder: HpackDecoder
  readonly #parse: (block: HeaderBlock) => Meaning
  readonly #remembered = new Map<string, Meaning>()
  /** The meaning of the block before, and its bytes; undefined when it is not remembered. */
  #last: Meaning | undefined
  #lastBytes: Uint8Array = noBytes
  #lastLength = 0

  constructor(maxListBytes: number, parse: (block: HeaderBlock) => Meaning) {
    this.#decoder = new HpackDecoder(maxListBytes)
    this.#parse = parse
  }

  /** @throws ConnectionError COMPRESSION_ERROR */
  meaning(source: Buffer, start: number, end: number): Meaning {
    if (end - start > maxRememberedBytes) return this.#parse(this.decode(source, start, end))
    if (this.#last !== undefined && this.#isLast(source, start, end)) return this.#last
    const bytes = source.toString('latin1', start, end)
    const known = this.#remembered.get(bytes)
    if (known !== undefined) {
      this.#keepLast(known, source, start, end)
      return known
    }
    const block = this.decode(source, start, end)
    const meaning = this.#parse(block)
    if (block.repeatable) {
      if (this.#remembered.size === maxRemembered) this.#remembered.clear()
      this.#remembered.set(bytes, meaning)
    }
    return meaning
  }

  /** Every block has to be decoded, also one that nobody wants: the table changes with it. */
  decode(source: Buffer, start: number, end: number): HeaderBlock {
    const block = this.#decoder.decode(source, start, end)
    if (!block.repeatable) {
      this.#remembered.clear()
      this.#last = undefined
    }
    return block
  }

  #isLast(source: Buffer, start: number, end: number): boolean {
    if (end - start !== this.#lastLength) return false
    for (let at = start; at < end; at++) {
      if (source[at] !== this.#lastBytes[at - start]) return false
    }
    return true
  }

  #keepLast(meaning: Meaning, source: Buffer, start: number, end: number): void {
    if (this.#lastBytes === noBytes) this.#lastBytes = new Uint8Array(maxRememberedBytes)
    source.copy(this.#lastBytes, 0, start, end)
    this.#last = meaning
    this.#lastLength = end - start
  }
}

const noBytes = new Uint8Array(0)
