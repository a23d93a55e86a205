/**
 * A connection that carries calls of a load. Each call has a number of the caller's choice, by which its
 * answer is told; two calls in flight never have the same.
 */
export interface LoadConnection {
  /** Sends the request. Written at the end of the turn, together with the others of the turn. */
  send(body: Uint8Array, call: number): void
  close(): void
}

export interface LoadListener {
  /** Told once for each call; `ok` says whether the answer was the one that the load expects. */
  answered(call: number, ok: boolean): void
  /** The server ended the connection: calls that were in flight are never answered. */
  lost(reason: string): void
}

export type OpenConnection = (listener: LoadListener) => Promise<LoadConnection>

/** A load, whatever its pace. */
export interface Load {
  readonly open: OpenConnection
  readonly connections: number
  /** Calls in flight on each connection, at most. */
  readonly streams: number
  /** The request of the n-th call, from 0. */
  readonly bodyOf: (call: number) => Uint8Array
}

export interface LoadResult {
  readonly calls: number
  /** Calls whose answer was not the one that was expected. */
  readonly failed: number
  readonly seconds: number
  /** Of every call. From when the pace is measured is told by the function that made the load. */
  readonly latenciesMs: Float64Array
  /** What making the load cost this process. */
  readonly loadCpuMicros: number
}
