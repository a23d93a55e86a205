import type { ProcessSession } from './process-session.ts'
import type { Report, Request } from './session-codec.ts'

/** The ids of requests; unique to this operator. */
let lastId = 0n

export function nextId(): bigint {
  lastId += 1n
  return lastId
}

export interface Asked<Value> {
  readonly answers: readonly { readonly session: ProcessSession; readonly value: Value }[]
  /** The processes that did not answer by the deadline, or whose session has ended. */
  readonly missing: readonly ProcessSession[]
}

/**
 * Sends one request to several processes at once, and waits for their answers until the deadline.
 *
 * @param request makes the request with this id
 * @param read returns the answer in a report; undefined for other reports
 */
export async function askProcesses<Value>(
  sessions: readonly ProcessSession[],
  request: (id: bigint) => Request,
  read: (report: Report) => Value | undefined,
  deadlineMs: number,
): Promise<Asked<Value>> {
  const answers: { session: ProcessSession; value: Value }[] = []
  const missing: ProcessSession[] = []
  await Promise.all(
    sessions.map(async session => {
      const value = await askOne(session, request, read, deadlineMs)
      if (value === undefined) missing.push(session)
      else answers.push({ session, value })
    }),
  )
  return { answers, missing }
}

function askOne<Value>(
  session: ProcessSession,
  request: (id: bigint) => Request,
  read: (report: Report) => Value | undefined,
  deadlineMs: number,
): Promise<Value | undefined> {
  const { promise, resolve } = Promise.withResolvers<Value | undefined>()
  const id = nextId()
  const timer = setTimeout(() => resolve(undefined), deadlineMs)
  const stop = session.follow(id, request(id), report => {
    const value = report === undefined ? undefined : read(report)
    if (report === undefined || value !== undefined) resolve(value)
  })
  return promise.finally(() => {
    clearTimeout(timer)
    stop()
  })
}

/** The names of pods, each once, sorted. */
export function podNames(sessions: readonly ProcessSession[]): readonly string[] {
  return [...new Set(sessions.map(({ identity }) => identity.pod || identity.uid))].sort()
}
