/** A process that answers requests with an id. */
export interface AskedProcess<Report, Request> {
  /**
   * Sends a request, and calls `onReport` with each report of the same id until the returned function is
   * called. When the session ends, `onReport` is called with undefined.
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

  /** Passes a report to the request with this id, if the request still waits. */
  pass(id: bigint, report: Report): void {
    this.#waiting.get(id)?.(report)
  }

  /** Ends all waiting requests, since the session has ended. */
  close(): void {
    for (const onReport of this.#waiting.values()) onReport(undefined)
    this.#waiting.clear()
  }
}

/** The id of the last request. Ids are unique to this operator process. */
let lastId = 0n

export function nextRequestId(): bigint {
  lastId += 1n
  return lastId
}

interface Asked<Session, Value> {
  readonly answers: readonly { readonly session: Session; readonly value: Value }[]
  /** The processes that did not answer by the deadline, or whose session has ended. */
  readonly missing: readonly Session[]
}

/**
 * Sends one request to several processes of one kind at once, and waits for their answers until the deadline.
 *
 * @param request returns the request with this id
 * @param read returns the answer in a report; undefined for other reports
 * @param isEnough returns whether this answer suffices, so that the others are not awaited
 */
type AskProcesses<Report, Request> = <Session extends AskedProcess<Report, Request>, Value>(
  sessions: readonly Session[],
  request: (id: bigint) => Request,
  read: (report: Report) => Value | undefined,
  deadlineMs: number,
  isEnough?: (value: Value) => boolean,
) => Promise<Asked<Session, Value>>

export function askingProcesses<Report, Request>(): AskProcesses<Report, Request> {
  return async (sessions, request, read, deadlineMs, isEnough = () => false) => {
    const enough = new AbortController()
    const { signal } = enough
    const askSession = async (session: (typeof sessions)[number]) => {
      const value = await askOne(session, request, read, { deadlineMs, signal })
      if (value !== undefined && isEnough(value)) enough.abort()
      return { session, value }
    }
    const asked = await Promise.all(sessions.map(askSession))
    return {
      answers: asked.flatMap(({ session, value }) => (value === undefined ? [] : [{ session, value }])),
      missing: asked.flatMap(({ session, value }) => (value === undefined ? [session] : [])),
    }
  }
}

function askOne<Report, Request, Value>(
  session: AskedProcess<Report, Request>,
  request: (id: bigint) => Request,
  read: (report: Report) => Value | undefined,
  { deadlineMs, signal }: { readonly deadlineMs: number; readonly signal: AbortSignal },
): Promise<Value | undefined> {
  const { promise, resolve } = Promise.withResolvers<Value | undefined>()
  const id = nextRequestId()
  const giveUp = () => resolve(undefined)
  const timer = setTimeout(giveUp, deadlineMs)
  signal.addEventListener('abort', giveUp)
  const stop = session.follow(id, request(id), report => {
    const value = report === undefined ? undefined : read(report)
    if (report === undefined || value !== undefined) resolve(value)
  })
  return promise.finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', giveUp)
    stop()
  })
}
