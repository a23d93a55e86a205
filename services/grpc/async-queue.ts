/** A queue of unlimited length. Items are added at any time; a single reader takes them one by one. */
export class AsyncQueue<T> {
  readonly #waiting: T[] = []
  #ended: { readonly error: Error | undefined } | undefined
  #wake: () => void = () => {}

  put(item: T): void {
    this.#waiting.push(item)
    this.#wake()
  }

  /**
   * Ends the queue and drops the waiting items. The reader's loop ends, or throws the error if one is given.
   * Later calls have no effect. May be passed as a callback.
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
