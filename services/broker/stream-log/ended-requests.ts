interface EndedRequest {
  readonly bytes: number
  /** When the request is to be forgotten, in milliseconds since the epoch. */
  readonly untilMs: number
  /** Called once. `early` is true if the request is forgotten before `untilMs`. */
  forget(early: boolean): void
}

const defaultMaxRequests = 10_000

/**
 * Ended requests, the oldest end first. Each is kept until `untilMs`, or until later requests need the room.
 */
export class EndedRequests {
  readonly #nowMs: () => number
  readonly #maxBytes: number
  readonly #maxRequests: number
  readonly #requests = new Set<EndedRequest>()
  #bytes = 0

  constructor(nowMs: () => number, maxBytes: number, maxRequests = defaultMaxRequests) {
    this.#nowMs = nowMs
    this.#maxBytes = maxBytes
    this.#maxRequests = maxRequests
  }

  add(request: EndedRequest): void {
    this.#requests.add(request)
    this.#bytes += request.bytes
    for (const oldest of this.#requests) {
      if (this.#requests.size <= this.#maxRequests && this.#bytes <= this.#maxBytes) return
      this.#forget(oldest)
    }
  }

  sweep(): void {
    for (const request of this.#requests) if (request.untilMs <= this.#nowMs()) this.#forget(request)
  }

  #forget(request: EndedRequest): void {
    this.#requests.delete(request)
    this.#bytes -= request.bytes
    request.forget(this.#nowMs() < request.untilMs)
  }
}
