import { type HeaderBlock, HpackDecoder } from '../hpack/hpack-decoder.ts'

/** The most blocks in a cache; a full cache is cleared. */
const maxRemembered = 64
/** The most bytes of a block in the cache: frequent blocks are short. */
const maxRememberedBytes = 512

/**
 * Decodes header blocks, and caches the result of `parse` by the bytes of the block, since callers repeat the
 * same few blocks. Equal bytes have the same meaning only while HPACK's dynamic table is unchanged, so every
 * change clears the cache.
 *
 * Most blocks equal the previous one. Comparing bytes takes a tenth of the time of a string and a lookup.
 */
export class HeaderBlocks<Meaning> {
  readonly #decoder: HpackDecoder
  readonly #parse: (block: HeaderBlock) => Meaning
  readonly #onTruncated: (bytes: number) => void
  readonly #remembered = new Map<string, Meaning>()
  /** The meaning of the last block that was found in the cache. */
  #last: Meaning | undefined
  #lastBytes: Uint8Array = noBytes
  #lastLength = 0

  /**
   * @param maxListBytes the limit of a header list
   * @param parse computes the meaning of a block
   * @param onTruncated called with the encoded length of a block whose header list exceeds the limit
   */
  constructor(
    maxListBytes: number,
    parse: (block: HeaderBlock) => Meaning,
    onTruncated: (bytes: number) => void,
  ) {
    this.#decoder = new HpackDecoder(maxListBytes)
    this.#parse = parse
    this.#onTruncated = onTruncated
  }

  /**
   * Returns the meaning of a block.
   *
   * @throws ConnectionError COMPRESSION_ERROR, and exceptions of `onTruncated`
   */
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

  /**
   * Decodes a block without the cache. Every block must be decoded, even if nobody needs it, since it may
   * change the dynamic table.
   */
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
