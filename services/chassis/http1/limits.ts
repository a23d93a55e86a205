/** The limits of a server. Exceeding one leads to an error answer or to the end of the connection. */
export interface Http1Limits {
  /**
   * A request line and its headers, with all line ends; trailers have a separate limit of the same size.
   * Beyond: 431.
   */
  readonly maxHeadBytes: number
  /** Header lines of a request, and separately its trailers. Beyond: 431. */
  readonly maxHeaders: number
  /** The target of a request: its path and query. Beyond: 414. */
  readonly maxTargetBytes: number
  /** A body, without its chunked coding. Beyond: 413, or `bodyTooLong`. */
  readonly maxBodyBytes: number
  /** Unanswered requests of one connection. At the limit, reading is paused. */
  readonly maxPipelined: number
  /** Open connections; further ones are closed at once. */
  readonly maxConnections: number
  /** The time from the first byte of a request to the end of its headers. A slower request gets 408. */
  readonly headTimeoutMs: number
  /** The time from the end of the headers to the end of the body. A slower request gets 408. */
  readonly bodyTimeoutMs: number
  /** A connection without a request is closed after this time. */
  readonly idleTimeoutMs: number
  /** A connection is closed when its client reads nothing of its answers for this time. */
  readonly writeTimeoutMs: number
  /** How long a client may take to close a connection that the server has closed. */
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
