/** The queue of one stream: items are added at any time and taken one by one. */
interface AsyncQueue<T> {
  put(item: T): void
  /** Drops the queued items. The taker's loop ends, or throws the error. Only the first call counts. */
  end(error?: Error): void
  /** The items, for a single taker. */
  readonly items: AsyncIterable<T>
}

export function createAsyncQueue<T>(): AsyncQueue<T> {
  const waiting: T[] = []
  let ended: { readonly error: Error | undefined } | undefined
  let wake: () => void = () => {}

  async function* items(): AsyncGenerator<T> {
    for (;;) {
      if (ended?.error) throw ended.error
      if (ended) return
      const item = waiting.shift()
      if (item !== undefined) yield item
      else {
        await new Promise<void>(resolve => {
          wake = resolve
        })
      }
    }
  }

  return {
    put(item) {
      waiting.push(item)
      wake()
    },
    end(error) {
      ended ??= { error }
      wake()
    },
    items: { [Symbol.asyncIterator]: items },
  }
}
