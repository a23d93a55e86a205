import { signal } from '@preact/signals'
import { CallError, type QueryParameters, request, toUrl } from './api.ts'

/**
 * `waiting`: the stream connects, or pauses before the next attempt. `failed`: it has given up, since another
 * attempt would fail too.
 */
type StreamState = 'waiting' | 'live' | 'failed'

const firstPauseMs = 500
const maxPauseMs = 8_000
/** A connection without bytes for this time is closed: the API sends a heartbeat every 15 s. */
const silenceMs = 40_000

/**
 * A stream of events of the API, which reconnects when it ends. The pause before that doubles with each
 * failed attempt. The stream is read by fetch, because EventSource cannot send the token.
 */
export class EventStream<Data> {
  readonly state = signal<StreamState>('waiting')
  /** The reason why the last attempt failed; empty while the stream is live. */
  readonly problem = signal('')
  readonly #path: string
  readonly #parameters: QueryParameters
  readonly #onData: (data: Data) => void
  readonly #closed = new AbortController()

  constructor(path: string, parameters: QueryParameters, onData: (data: Data) => void) {
    this.#path = path
    this.#parameters = parameters
    this.#onData = onData
    void this.#run()
  }

  close(): void {
    this.#closed.abort()
  }

  async #run(): Promise<void> {
    const { signal: closed } = this.#closed
    let pauseMs = firstPauseMs
    while (!closed.aborted) {
      try {
        await this.#readOnce()
        pauseMs = firstPauseMs
      } catch (error) {
        if (closed.aborted) return
        this.problem.value = error instanceof Error ? error.message : 'the stream ended unexpectedly'
        if (this.state.value === 'live') pauseMs = firstPauseMs
        if (error instanceof CallError && isFinal(error.status)) {
          this.state.value = 'failed'
          return
        }
      }
      this.state.value = 'waiting'
      await pause(pauseMs, closed)
      pauseMs = Math.min(maxPauseMs, pauseMs * 2)
    }
  }

  async #readOnce(): Promise<void> {
    const { signal: closed } = this.#closed
    const silence = new AbortController()
    let timer = setTimeout(() => silence.abort(), silenceMs)
    const onBytes = () => {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), silenceMs)
    }
    try {
      const either = AbortSignal.any([closed, silence.signal])
      const response = await request(toUrl(this.#path, this.#parameters), { signal: either }, closed)
      this.state.value = 'live'
      this.problem.value = ''
      if (response.body !== null) await readEvents(response.body, event => this.#onEvent(event), onBytes)
    } finally {
      clearTimeout(timer)
    }
  }

  #onEvent({ name, data }: StreamEvent): void {
    if (name === 'error') throw toStreamError(data)
    if (name !== 'end') this.#onData(JSON.parse(data) as Data)
  }
}

/** Returns whether another attempt would fail too, as after an invalid parameter or without the right. */
const isFinal = (status: number) => status >= 400 && status < 500 && status !== 429 && status !== 404

function toStreamError(data: string): CallError {
  const { error } = JSON.parse(data) as { error: { code: string; message: string } }
  return new CallError(503, error.code, error.message)
}

interface StreamEvent {
  readonly name: string
  readonly data: string
}

/** The maximum length of an event, in characters. A longer event, such as one with large keys, is skipped. */
const maxEventLength = 4 * 1024 * 1024

async function readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  onEvent: (event: StreamEvent) => void,
  onBytes: () => void,
): Promise<void> {
  let rest = ''
  let isTooLong = false
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    onBytes()
    const blocks = (rest + part.value).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const event = isTooLong || block.length > maxEventLength ? undefined : parseEvent(block)
      if (event !== undefined) onEvent(event)
      isTooLong = false
    }
    if (rest.length > maxEventLength) {
      isTooLong = true
      // The last character is kept, because it may be the first one of the separator of two events.
      rest = rest.slice(-1)
    }
  }
}

/** Parses the lines of one event. Returns undefined for a comment. */
function parseEvent(block: string): StreamEvent | undefined {
  let name = 'message'
  const data: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice('event: '.length)
    else if (line.startsWith('data: ')) data.push(line.slice('data: '.length))
  }
  return data.length === 0 ? undefined : { name, data: data.join('\n') }
}

/** Resolves after `ms`, or earlier when the signal is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(end, ms)
    function end() {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    signal.addEventListener('abort', end)
  })
}
