import { type HeaderBlock, HpackDecoder } from '../hpack/hpack-decoder.ts'

/** The number of cached blocks of a connection; a full cache is cleared. */
const maxRemembered = 64
/** Longer blocks are not cached: frequent ones are short. */
const maxRememberedBytes = 512

/**
 * The header blocks that a connection receives. The result of `parse` is cached by the block's bytes, since
 * callers send the same few blocks repeatedly. The cache is valid only while the dynamic table is unchanged:
 * every change of the table clears it.
 *
 * Most blocks equal the previous one. Comparing them byte by byte takes a tenth of the time of creating a
 * string and looking it up.
 */
export class HeaderBlocks<Meaning> {
  readonly #decoder: HpackDecoder
  readonly #parse: (block: HeaderBlock) => Meaning
  readonly #onTruncated: (bytes: number) => void
  readonly #remembered = new Map<string, Meaning>()
  /** The result and the bytes of the previous block; undefined when it is not cached. */
  #last: Meaning | undefined
  #lastBytes: Uint8Array = noBytes
  #lastLength = 0

  /** @param onTruncated called with the length of each block whose list exceeds the limit */
  constructor(
    maxListBytes: number,
    parse: (block: HeaderBlock) => Meaning,
    onTruncated: (bytes: number) => void,
  ) {
    this.#decoder = new HpackDecoder(maxListBytes)
    this.#parse = parse
    this.#onTruncated = onTruncated
  }

  /** @throws ConnectionError COMPRESSION_ERROR, and exceptions of `onTruncated` */
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
    if (block.repeatable && !block.truncated) {
      if (this.#remembered.size === maxRemembered) this.#remembered.clear()
      this.#remembered.set(bytes, meaning)
    }
    return meaning
  }

  /** Every block must be decoded, also an unwanted one, since it may change the table. */
  decode(source: Buffer, start: number, end: number): HeaderBlock {
    const block = this.#decoder.decode(source, start, end)
    if (!block.repeatable) {
      this.#remembered.clear()
      this.#last = undefined
    }
    if (block.truncated) this.#onTruncated(end - start)
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
