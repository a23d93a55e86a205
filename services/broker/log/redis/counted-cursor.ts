import { type Entry, entryOverheadBytes, type RequestEnd, type RingCursor } from '../stream-log.ts'

export interface CountedCursorOptions {
  /** Reading so many bytes is worth to be told. */
  readonly worthBytes: number
  onProgress(): void
  /** Called once. */
  onClose(): void
}

/** A cursor that tells of what is read with it. */
export class CountedCursor implements RingCursor {
  readonly #cursor: RingCursor
  readonly #options: CountedCursorOptions
  #readBytes = 0
  #open = true

  constructor(cursor: RingCursor, options: CountedCursorOptions) {
    this.#cursor = cursor
    this.#options = options
  }

  get position(): number {
    return this.#cursor.position
  }

  takeGap(): number {
    return this.#cursor.takeGap()
  }

  next(): Entry | undefined {
    const entry = this.#cursor.next()
    if (entry === undefined) return undefined
    this.#readBytes += entry.bytes.length + entryOverheadBytes
    if (this.#readBytes >= this.#options.worthBytes) {
      this.#readBytes = 0
      this.#options.onProgress()
    }
    return entry
  }

  seek(to: Parameters<RingCursor['seek']>[0]): void {
    this.#cursor.seek(to)
  }

  get end(): RequestEnd | undefined {
    return this.#cursor.end
  }

  get behind(): RingCursor['behind'] {
    return this.#cursor.behind
  }

  close(): void {
    if (!this.#open) return
    this.#open = false
    this.#cursor.close()
    this.#options.onClose()
  }
}
