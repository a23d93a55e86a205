/** What a server takes at most. Exceeding any of these brings an answer or the end of that connection. */
export interface Http1Limits {
  /** A request line and its headers, with all line ends; trailers have as much again. Beyond: 431. */
  readonly maxHeadBytes: number
  /** Header lines of a request; as many trailers. Beyond: 431. */
  readonly maxHeaders: number
  /** The target of a request: its path and query. Beyond: 414. */
  readonly maxTargetBytes: number
  /** A body, without what its coding adds. Beyond: 413, or what the owner answers instead. */
  readonly maxBodyBytes: number
  /** Requests of one connection that are not answered yet. With so many, no more is read from it. */
  readonly maxPipelined: number
  /** Open connections; one more is closed at once. */
  readonly maxConnections: number
  /** From the first byte of a request to the end of its headers. Beyond: 408. */
  readonly headTimeoutMs: number
  /** From the end of the headers to the end of the body. Beyond: 408. */
  readonly bodyTimeoutMs: number
  /** A connection without a request is closed after this. */
  readonly idleTimeoutMs: number
  /** A connection is cut when its client takes nothing of its answers for so long. */
  readonly writeTimeoutMs: number
  /** How long a client may take to close a connection that is closed on our side. */
  readonly lingerTimeoutMs: number
}

export const defaultHttp1Limits: Http1Limits = {
  maxHeadBytes: 16 * 1024,
  maxHeaders: 100,
  maxTargetBytes: 8 * 1024,
  maxBodyBytes: 1024 * 1024,
  maxPipelined: 64,
  maxConnections: 65_536,
  headTimeoutMs: 10_000,
  bodyTimeoutMs: 30_000,
  idleTimeoutMs: 75_000,
  writeTimeoutMs: 30_000,
  lingerTimeoutMs: 5_000,
}
