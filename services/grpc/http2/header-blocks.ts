import { ConnectionError } from './frames.ts'
import { type HeaderBlock, HpackDecoder } from './hpack-decoder.ts'

/** A longer header block, still encoded, ends its connection: nobody honest sends one. */
const minBlockBytes = 64 * 1024
/** So many blocks are remembered for a connection; then it begins anew. */
const maxRemembered = 64
/** Longer blocks are not remembered: what is sent often is short. */
const maxRememberedBytes = 512

/** A header block whose CONTINUATION frames have not all come yet (RFC 9113, 6.10). */
export interface OpenBlock {
  readonly streamId: number
  readonly endStream: boolean
  /** It says that the stream depends on itself, which is an error once the block is read. */
  readonly ownParent: boolean
  readonly parts: Buffer[]
  bytes: number
}

/**
 * The header blocks that a connection receives. What a block means to `parse` is remembered by its bytes, as
 * callers send the same few over and over. That is right only while the dynamic table stays as it is: every
 * change of it empties the memory.
 */
export class HeaderBlocks<Meaning> {
  readonly #decoder: HpackDecoder
  readonly #parse: (block: HeaderBlock) => Meaning
  readonly #maxBytes: number
  readonly #remembered = new Map<string, Meaning>()

  constructor(maxListBytes: number, parse: (block: HeaderBlock) => Meaning) {
    this.#decoder = new HpackDecoder(maxListBytes)
    this.#parse = parse
    this.#maxBytes = Math.max(minBlockBytes, 2 * maxListBytes)
  }

  /** @throws ConnectionError COMPRESSION_ERROR */
  meaning(source: Buffer, start: number, end: number): Meaning {
    if (end - start > maxRememberedBytes) return this.#parse(this.decode(source, start, end))
    const bytes = source.toString('latin1', start, end)
    const known = this.#remembered.get(bytes)
    if (known !== undefined) return known
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
    if (!block.repeatable) this.#remembered.clear()
    return block
  }

  /** @throws ConnectionError ENHANCE_YOUR_CALM when the block becomes too large. */
  extend(open: OpenBlock, part: Buffer): void {
    open.bytes += part.length
    if (open.bytes > this.#maxBytes) {
      throw new ConnectionError('ENHANCE_YOUR_CALM', `a header block exceeds ${this.#maxBytes} bytes`)
    }
    if (part.length > 0) open.parts.push(part)
  }
}
