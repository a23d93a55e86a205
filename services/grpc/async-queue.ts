/** A queue without a limit: items are added at any time, and taken one by one by a single reader. */
export class AsyncQueue<T> {
  readonly #waiting: T[] = []
  #ended: { readonly error: Error | undefined } | undefined
  #wake: () => void = () => {}

  put(item: T): void {
    this.#waiting.push(item)
    this.#wake()
  }

  /**
   * Drops the queued items. The reader's loop ends, or throws the error. Only the first call counts. May be
   * passed as a function.
   */
  readonly end = (error?: Error): void => {
    this.#ended ??= { error }
    this.#wake()
  }

  /** The items until the end, for a single reader. */
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
