import { signal } from '@preact/signals'
import { readEvents } from '../../../api/read-events.ts'
import type { ErrorAnswer } from '../../../api/shapes.ts'
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
 * A stream of events of the API, which reconnects when it ends. The pause before a reconnection doubles with
 * each failed attempt. The stream is read by fetch, because EventSource cannot send the token.
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
      for await (const { name, data } of readEvents(response, onBytes)) {
        if (name === 'error') {
          const { error } = data as ErrorAnswer
          throw new CallError(503, error.code, error.message)
        }
        if (name !== 'end') this.#onData(data as Data)
      }
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Returns whether another attempt would fail too, as after an invalid parameter or without the right. */
const isFinal = (status: number) => status >= 400 && status < 500 && status !== 429 && status !== 404

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
