interface ServerEvent {
  readonly name: string
  readonly data: unknown
}

/** The maximum length of an event, in characters. A longer event, such as one with large keys, is skipped. */
const maxEventLength = 4 * 1024 * 1024

/**
 * Yields the events of a stream of the API, without comments such as heartbeats.
 *
 * @param onBytes called whenever bytes arrive
 */
export async function* readEvents({ body }: Response, onBytes = () => {}): AsyncGenerator<ServerEvent> {
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let isTooLong = false
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      onBytes()
      const blocks = (rest + part.value).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const [, name, data = ''] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? []
        if (name !== undefined && !isTooLong && block.length <= maxEventLength)
          yield { name, data: JSON.parse(data) }
        isTooLong = false
      }
      if (rest.length > maxEventLength) {
        isTooLong = true
        // The last character is kept, because it may be the first one of the separator of two events.
        rest = rest.slice(-1)
      }
    }
  } finally {
    void reader.cancel().catch(() => {})
  }
}
