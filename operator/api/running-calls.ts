import { ApiError } from './api-error.ts'

export interface ApiLimits {
  /** Streams of events that are open at a time. */
  readonly maxStreams: number
  /** Calls that are answered at a time, without streams. */
  readonly maxCalls: number
  /** The most what-ifs at a time: each may hold a body of 10 MB. */
  readonly maxWhatIfs: number
  /** A stream ends after this time, so that the rights of its caller are checked again. */
  readonly maxStreamMs: number
  /** A client of a stream that reads nothing for this time is disconnected. */
  readonly slowReaderMs: number
}

export const defaultApiLimits: ApiLimits = {
  maxStreams: 100,
  maxCalls: 200,
  maxWhatIfs: 2,
  maxStreamMs: 300_000,
  slowReaderMs: 10_000,
}

type CallKind = 'calls' | 'streams' | 'whatIfs'

const kindNames: Readonly<Record<CallKind, string>> = {
  calls: 'calls',
  streams: 'streams',
  whatIfs: 'what-ifs',
}

/** Counts the calls that run at a time. */
export class RunningCalls {
  readonly #limits: Readonly<Record<CallKind, number>>
  readonly #running = { calls: 0, streams: 0, whatIfs: 0 }

  constructor({ maxCalls: calls, maxStreams: streams, maxWhatIfs: whatIfs }: ApiLimits) {
    this.#limits = { calls, streams, whatIfs }
  }

  /**
   * Counts one more call, until the returned function is called.
   *
   * @throws ApiError with 429 if as many run as are allowed
   */
  begin(kind: CallKind): () => void {
    const limit = this.#limits[kind]
    if (this.#running[kind] >= limit)
      throw busy(429, 'too-many', `${limit} ${kindNames[kind]} run; that is the limit`)
    this.#running[kind] += 1
    return () => {
      this.#running[kind] -= 1
    }
  }
}

/** An error after which the caller may try again in a second. */
export const busy = (status: number, code: string, message: string) =>
  new ApiError(status, code, message, { headers: { 'retry-after': '1' } })
