import { ConnectionError } from '../frames/frames.ts'
import { staticTable } from './hpack-static-table.ts'
import { decodeHuffman, maxDecodedBytes } from './huffman.ts'

/** Each entry counts this many bytes in addition to its name and value (RFC 7541, 4.1). */
const entryOverheadBytes = 32
/** The size of the dynamic table: the default of RFC 9113 (6.5.2), which this server does not change. */
export const dynamicTableBytes = 4096

export interface HeaderBlock {
  /** Names and values alternate. Each character is one byte as it was sent. */
  readonly fields: readonly string[]
  /** True if the list exceeds the limit, and only its beginning is here. */
  readonly truncated: boolean
  /** True if the dynamic table did not change: the same bytes then mean the same again. */
  readonly repeatable: boolean
}

interface Entry {
  readonly name: string
  readonly value: string
}

const staticEntries: readonly Entry[] = staticTable.map(([name, value]) => ({ name, value }))

/**
 * HPACK (RFC 7541) of one connection. Blocks are decoded in the order of arrival: each may change the dynamic
 * table.
 */
export class HpackDecoder {
  readonly #maxListBytes: number
  /** The newest entry is the last. */
  readonly #table: Entry[] = []
  #tableBytes = 0
  #maxTableBytes = dynamicTableBytes

  #source: Buffer = Buffer.alloc(0)
  #offset = 0
  #end = 0
  #scratch: Buffer = Buffer.alloc(0)

  #fields: string[] = []
  #listBytes = 0
  #repeatable = true

  /** @param maxListBytes longer lists, as RFC 9113 (6.5.2) counts, are truncated */
  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes
  }

  /**
   * Decodes from `start` to before `end`.
   *
   * @throws ConnectionError COMPRESSION_ERROR for an invalid header block
   */
  decode(source: Buffer, start: number, end: number): HeaderBlock {
    this.#source = source
    this.#offset = start
    this.#end = end
    this.#fields = []
    this.#listBytes = 0
    this.#repeatable = true
    let begun = false
    while (this.#offset < end) {
      const byte = this.#byte()
      if ((byte & 0xe0) === 0x20) {
        // RFC 7541 (4.2): these come before the first field.
        if (begun) throw compressionError('a change of the table size follows a field')
        this.#resize(this.#integer(byte, 5))
      } else {
        begun = true
        this.#field(byte)
        if (this.#listBytes > this.#maxListBytes) this.#skipReferences()
      }
    }
    const truncated = this.#listBytes > this.#maxListBytes
    return { fields: this.#fields, truncated, repeatable: this.#repeatable }
  }

  /**
   * Skips references of one byte to table entries. Beyond the limit of the list such references have no
   * effect but cost time: a block of them is thousands of times shorter than its list.
   */
  #skipReferences(): void {
    const newest = Math.min(0xfe, 0x80 + staticEntries.length + this.#table.length)
    for (; this.#offset < this.#end; this.#offset += 1) {
      const byte = this.#source.readUInt8(this.#offset)
      if (byte <= 0x80 || byte > newest) return
    }
  }

  #field(byte: number): void {
    if (byte & 0x80) {
      const { name, value } = this.#entry(this.#integer(byte, 7))
      this.#emit(name, value)
      return
    }
    const indexed = (byte & 0xc0) === 0x40
    const isWanted = indexed || this.#listBytes <= this.#maxListBytes
    const nameIndex = this.#integer(byte, indexed ? 6 : 4)
    const name = nameIndex === 0 ? this.#text(isWanted) : this.#entry(nameIndex).name
    const value = this.#text(isWanted)
    this.#emit(name, value)
    if (indexed) this.#insert({ name, value })
  }

  #emit(name: string, value: string): void {
    this.#listBytes += name.length + value.length + entryOverheadBytes
    if (this.#listBytes <= this.#maxListBytes) this.#fields.push(name, value)
  }

  #entry(index: number): Entry {
    const entry =
      index <= staticEntries.length
        ? staticEntries[index - 1]
        : this.#table[this.#table.length - (index - staticEntries.length)]
    if (entry === undefined) throw compressionError(`index ${index} is not in the table`)
    return entry
  }

  #insert(entry: Entry): void {
    this.#repeatable = false
    const bytes = entryBytes(entry)
    this.#evictDownTo(this.#maxTableBytes - bytes)
    // RFC 7541 (4.4): a larger entry empties the table.
    if (bytes > this.#maxTableBytes) return
    this.#table.push(entry)
    this.#tableBytes += bytes
  }

  #resize(bytes: number): void {
    if (bytes > dynamicTableBytes) {
      throw compressionError(`a table of ${bytes} bytes, at most ${dynamicTableBytes} are allowed`)
    }
    this.#repeatable = false
    this.#maxTableBytes = bytes
    this.#evictDownTo(bytes)
  }

  #evictDownTo(bytes: number): void {
    while (this.#tableBytes > bytes) {
      const oldest = this.#table.shift()
      if (oldest === undefined) return
      this.#tableBytes -= entryBytes(oldest)
    }
  }

  #byte(): number {
    if (this.#offset >= this.#end) throw compressionError('the header block ends too early')
    return this.#source.readUInt8(this.#offset++)
  }

  /**
   * Reads an integer (RFC 7541, 5.1) that begins with `byte`. No valid length or index needs more than four
   * further bytes.
   */
  #integer(byte: number, prefixBits: number): number {
    const mask = (1 << prefixBits) - 1
    let value = byte & mask
    if (value < mask) return value
    for (let shift = 0; shift < 28; shift += 7) {
      const next = this.#byte()
      value += (next & 0x7f) << shift
      if (next < 0x80) return value
    }
    throw compressionError('an integer is too long')
  }

  /** Checks a text. Returns an empty one if the text is not wanted. */
  #text(isWanted: boolean): string {
    const first = this.#byte()
    const length = this.#integer(first, 7)
    const start = this.#offset
    const end = start + length
    if (end > this.#end) throw compressionError('a string is longer than its header block')
    this.#offset = end
    if (first < 0x80) return isWanted ? this.#source.toString('latin1', start, end) : ''
    if (this.#scratch.length < maxDecodedBytes(length)) {
      this.#scratch = Buffer.allocUnsafeSlow(maxDecodedBytes(length))
    }
    const decoded = decodeHuffman(this.#source, start, end, this.#scratch)
    if (decoded < 0) throw compressionError('a string is not a valid Huffman code')
    return isWanted ? this.#scratch.toString('latin1', 0, decoded) : ''
  }
}

function entryBytes({ name, value }: Entry): number {
  return name.length + value.length + entryOverheadBytes
}

function compressionError(message: string): ConnectionError {
  return new ConnectionError('COMPRESSION_ERROR', message)
}
