import { signal } from '@preact/signals'
import { ApiError, type QueryParameters, request, toUrl } from './api.ts'

/** `waiting`: connects, or pauses before the next attempt. `failed`: another attempt would fail too. */
type StreamState = 'waiting' | 'live' | 'failed'

export interface EventStream {
  readonly state: { readonly value: StreamState }
  /** Why the last attempt failed; empty while it is live. */
  readonly problem: { readonly value: string }
  close(): void
}

const firstPauseMs = 500
const maxPauseMs = 8_000
/** The API sends a heartbeat every 15 s. */
const silenceMs = 40_000

/**
 * Reads a stream of events by fetch, so that the token goes along, and connects again when it ends. The pause
 * doubles with each failed attempt.
 */
export function openStream<Data>(
  path: string,
  parameters: QueryParameters,
  onData: (data: Data) => void,
): EventStream {
  const state = signal<StreamState>('waiting')
  const problem = signal('')
  const closed = new AbortController()
  const onEvent = (event: StreamEvent) => {
    if (event.name === 'error') throw streamError(event.data)
    if (event.name !== 'end') onData(JSON.parse(event.data) as Data)
  }

  async function readOnce(): Promise<void> {
    const silence = new AbortController()
    let timer = setTimeout(() => silence.abort(), silenceMs)
    try {
      const either = AbortSignal.any([closed.signal, silence.signal])
      const response = await request(toUrl(path, parameters), { signal: either }, closed.signal)
      state.value = 'live'
      problem.value = ''
      if (response.body === null) return
      await readEvents(response.body, onEvent, () => {
        clearTimeout(timer)
        timer = setTimeout(() => silence.abort(), silenceMs)
      })
    } finally {
      clearTimeout(timer)
    }
  }

  async function run(): Promise<void> {
    let pauseMs = firstPauseMs
    while (!closed.signal.aborted) {
      try {
        await readOnce()
        pauseMs = firstPauseMs
      } catch (error) {
        if (closed.signal.aborted) return
        problem.value = error instanceof Error ? error.message : 'the stream broke off'
        if (state.value === 'live') pauseMs = firstPauseMs
        if (error instanceof ApiError && isFinal(error.status)) {
          state.value = 'failed'
          return
        }
      }
      state.value = 'waiting'
      await pause(pauseMs, closed.signal)
      pauseMs = Math.min(maxPauseMs, pauseMs * 2)
    }
  }

  void run()
  return { state, problem, close: () => closed.abort() }
}

/** A rejected parameter or a missing right does not change by another attempt. */
const isFinal = (status: number) => status >= 400 && status < 500 && status !== 429 && status !== 404

function streamError(data: string): ApiError {
  const { error } = JSON.parse(data) as { error: { code: string; message: string } }
  return new ApiError(503, error.code, error.message)
}

interface StreamEvent {
  readonly name: string
  readonly data: string
}

/** The longest event. A longer one, as of large keys, is left out. */
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
      // The end of the event may begin here.
      rest = rest.slice(-1)
    }
  }
}

/** Returns the event of a block of lines; undefined for a comment. */
function parseEvent(block: string): StreamEvent | undefined {
  let name = 'message'
  const data: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice('event: '.length)
    else if (line.startsWith('data: ')) data.push(line.slice('data: '.length))
  }
  return data.length === 0 ? undefined : { name, data: data.join('\n') }
}

/** Resolves after the time, or as soon as the signal is aborted. */
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
