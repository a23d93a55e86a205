/** What waits to be sent on one stream: put in at any time, taken out one by one. */
export interface Outbox<T> {
  put(item: T): void
  /** What still waits is dropped. The taker's loop ends, or throws the error. Only the first call counts. */
  end(error?: Error): void
  /** For one taker. */
  readonly items: AsyncIterable<T>
}

export function createOutbox<T>(): Outbox<T> {
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
