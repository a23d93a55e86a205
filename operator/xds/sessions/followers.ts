/** A process that answers requests with an id. */
export interface AskedProcess<Report, Request> {
  /**
   * Sends a request, and passes the reports with its id on until the function is called that it returns.
   * `onReport` is called with undefined when the session ends.
   */
  follow(id: bigint, request: Request, onReport: OnReport<Report>): () => void
}

type OnReport<Report> = (report: Report | undefined) => void

/** The requests of one session that wait for reports. */
export class Followers<Report, Request> implements AskedProcess<Report, Request> {
  readonly #send: (request: Request) => void
  readonly #waiting = new Map<bigint, OnReport<Report>>()

  constructor(send: (request: Request) => void) {
    this.#send = send
  }

  follow(id: bigint, request: Request, onReport: OnReport<Report>): () => void {
    this.#waiting.set(id, onReport)
    this.#send(request)
    return () => void this.#waiting.delete(id)
  }

  /** Passes a report to the request with its id, if that still waits. */
  pass(id: bigint, report: Report): void {
    this.#waiting.get(id)?.(report)
  }

  /** The session has ended. */
  close(): void {
    for (const onReport of this.#waiting.values()) onReport(undefined)
    this.#waiting.clear()
  }
}
