import type { Duplex } from 'node:stream'

/** More text than this is written at once, even within a turn. */
const maxGatheredLength = 64 * 1024

/** The output of a connection: the answers of a turn are gathered and sent in one write. */
export class Output {
  readonly #socket: Duplex
  readonly #onRoom: () => void
  /** The text that was added last, after the parts. */
  #text = ''
  #isAscii = true
  #parts: Uint8Array[] = []
  #gathered = 0
  #congested = false

  /** `onRoom` is called when `hasRoom` becomes true again. */
  constructor(socket: Duplex, onRoom: () => void) {
    this.#socket = socket
    this.#onRoom = onRoom
    socket.on('drain', this.#onDrain)
  }

  /** False when the client does not read: no further answers should be created then. */
  get hasRoom(): boolean {
    if (this.#gathered >= maxGatheredLength) this.flush()
    return !this.#congested
  }

  /** `isAscii` is whether each character of the text is one octet. */
  addText(text: string, isAscii: boolean): void {
    this.#text += text
    this.#isAscii &&= isAscii
    this.#gathered += text.length
  }

  /** The octets must not be overwritten afterwards. */
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
