/**
 * A connection of a load. The caller chooses a number for each call, which identifies its answer; concurrent
 * calls have different numbers.
 */
export interface LoadConnection {
  /** Sends the request at the end of the turn, together with the others of the turn. */
  send(body: Uint8Array, call: number): void
  close(): void
}

export interface LoadListener {
  /** Called once for each call; `ok` is whether the answer was the expected one. */
  answered(call: number, ok: boolean): void
  /** The server ended the connection: calls in flight are never answered. */
  lost(reason: string): void
}

export type OpenConnection = (listener: LoadListener) => Promise<LoadConnection>

/** A load at any rate. */
export interface Load {
  readonly open: OpenConnection
  readonly connections: number
  /** The most calls in flight on each connection. */
  readonly streams: number
  /** Returns the request of the n-th call, from 0. */
  readonly bodyOf: (call: number) => Uint8Array
}

export interface LoadResult {
  readonly calls: number
  /** The number of calls with an unexpected answer. */
  readonly failed: number
  readonly seconds: number
  /** The latencies of all calls. The function that made the load documents their start. */
  readonly latenciesMs: Float64Array
  /** The CPU time of this process for the load. */
  readonly loadCpuMicros: number
}
