/** A queue without a limit, for a single reader. */
export class AsyncQueue<T> {
  readonly #waiting: T[] = []
  #ended: { readonly error: Error | undefined } | undefined
  #wake: () => void = () => {}

  put(item: T): void {
    this.#waiting.push(item)
    this.#wake()
  }

  /**
   * Drops the waiting items; the reader's loop ends, or throws the error. Later calls have no effect. May be
   * passed as a callback.
   */
  readonly end = (error?: Error): void => {
    this.#ended ??= { error }
    this.#wake()
  }

  /** The items until `end`, for a single reader. */
  readonly items: AsyncIterable<T> = { [Symbol.asyncIterator]: () => this.#takeAll() }

  async *#takeAll(): AsyncGenerator<T> {
    for (;;) {
      if (this.#ended?.error) throw this.#ended.error
      if (this.#ended) return
      const item = this.#waiting.shift()
      if (item !== undefined) yield item
      else {
        await new Promise<void>(resolve => {
          this.#wake = resolve
        })
      }
    }
  }
}
