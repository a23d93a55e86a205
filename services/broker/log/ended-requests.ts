/**
 * Ended requests in the order of their ends. They are kept until their time is over or later ones need the
 * room.
 */
export interface EndedRequests {
  add(request: EndedRequest): void
  /** Forgets the requests whose time is over. */
  sweep(): void
}

export interface EndedRequest {
  readonly bytes: number
  /** In milliseconds since the epoch. */
  readonly untilMs: number
  /** Called once. `early` is true before `untilMs`. */
  forget(early: boolean): void
}

export interface EndedRequestsOptions {
  readonly nowMs: () => number
  readonly maxBytes: number
  readonly maxRequests?: number
}

const defaultMaxRequests = 10_000

export function createEndedRequests(options: EndedRequestsOptions): EndedRequests {
  const { nowMs, maxBytes, maxRequests = defaultMaxRequests } = options
  const requests = new Set<EndedRequest>()
  let bytes = 0

  function forget(request: EndedRequest): void {
    requests.delete(request)
    bytes -= request.bytes
    request.forget(nowMs() < request.untilMs)
  }

  return {
    add(request) {
      requests.add(request)
      bytes += request.bytes
      for (const oldest of requests) {
        if (requests.size <= maxRequests && bytes <= maxBytes) return
        forget(oldest)
      }
    },
    sweep() {
      for (const request of requests) if (request.untilMs <= nowMs()) forget(request)
    },
  }
}
