import type { Duplex } from 'node:stream'

/** So much is gathered before it is written, even within a turn. */
const maxGatheredLength = 64 * 1024

/** What a connection sends: the answers of a turn are gathered, and go out in one write. */
export class Output {
  readonly #socket: Duplex
  readonly #onRoom: () => void
  /** What was added last, behind the parts. */
  #text = ''
  #isAscii = true
  #parts: Uint8Array[] = []
  #gathered = 0
  #congested = false

  /** `onRoom` is told when `hasRoom` is true again after it was false. */
  constructor(socket: Duplex, onRoom: () => void) {
    this.#socket = socket
    this.#onRoom = onRoom
    socket.on('drain', this.#onDrain)
  }

  /** False when the client does not take what was written: then nothing should make more answers. */
  get hasRoom(): boolean {
    if (this.#gathered >= maxGatheredLength) this.flush()
    return !this.#congested
  }

  /** `isAscii` tells whether each character of the text is one octet. */
  addText(text: string, isAscii: boolean): void {
    this.#text += text
    this.#isAscii &&= isAscii
    this.#gathered += text.length
  }

  /** The octets must not be written to again. */
  addBytes(bytes: Uint8Array): void {
    this.#parts.push(this.#textBytes(), bytes)
    this.#text = ''
    this.#isAscii = true
    this.#gathered += bytes.length
  }

  flush(): void {
    if (this.#gathered === 0) return
    const socket = this.#socket
    if (socket.writable) {
      const taken =
        this.#parts.length === 0
          ? socket.write(this.#text, this.#isAscii ? 'latin1' : 'utf8')
          : socket.write(Buffer.concat([...this.#parts, this.#textBytes()]))
      this.#congested = !taken
    }
    this.#text = ''
    this.#isAscii = true
    this.#gathered = 0
    if (this.#parts.length > 0) this.#parts = []
  }

  #textBytes(): Buffer {
    return Buffer.from(this.#text, this.#isAscii ? 'latin1' : 'utf8')
  }

  readonly #onDrain = (): void => {
    this.#congested = false
    this.#onRoom()
  }
}
