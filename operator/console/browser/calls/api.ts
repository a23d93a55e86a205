import { deadlines } from '../../../api/deadlines.ts'
import type { ErrorAnswer } from '../../../api/shapes.ts'
import { access, authorization, lastAnswerMs, outage, rejectLogin } from './session.ts'

/** The error of a call of the API. `status` is 0 if the operator did not answer. */
export class CallError extends Error {
  readonly status: number
  readonly code: string
  readonly problems: readonly ApiProblem[]

  constructor(status: number, code: string, message: string, problems: readonly ApiProblem[] = []) {
    super(message)
    this.status = status
    this.code = code
    this.problems = problems
  }
}

export interface ApiProblem {
  readonly field: string
  readonly message: string
}

export type QueryParameters = Readonly<Record<string, string | number | readonly string[] | undefined>>

/** Returns the URL of a call. A parameter with a list is repeated for each value. */
export function toUrl(path: string, parameters: QueryParameters = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined) continue
    for (const each of Array.isArray(value) ? value : [value]) search.append(name, `${each}`)
  }
  const query = search.toString()
  return `/api/v1${path}${query === '' ? '' : `?${query}`}`
}

export interface CallInit extends RequestInit {
  readonly parameters?: QueryParameters
  readonly deadlineMs?: number
}

/** Rejects with a `CallError`, or with the reason of the aborted signal. */
export async function fetchJson<Answer>(
  path: string,
  { parameters, signal, deadlineMs = deadlines.read, ...init }: CallInit = {},
): Promise<Answer> {
  const deadline = AbortSignal.timeout(deadlineMs)
  const either = signal ? AbortSignal.any([signal, deadline]) : deadline
  const response = await request(toUrl(path, parameters), { ...init, signal: either }, signal)
  return (await response.json()) as Answer
}

export function postJson<Answer>(
  path: string,
  body: unknown,
  init: Pick<CallInit, 'signal' | 'deadlineMs'> = {},
): Promise<Answer> {
  const headers = { 'content-type': 'application/json' }
  return fetchJson<Answer>(path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers,
    deadlineMs: deadlines.change,
    ...init,
  })
}

/**
 * Fetches with the token of the user. Rejects with a `CallError` unless the status is a success.
 *
 * @param cancelled aborted when the caller no longer needs the answer
 */
export async function request(
  address: string,
  init: RequestInit,
  cancelled?: AbortSignal | null,
): Promise<Response> {
  const headers = { ...init.headers, ...authorization() }
  let response: Response
  try {
    response = await fetch(address, { ...init, headers, credentials: 'omit', redirect: 'error' })
  } catch (error) {
    cancelled?.throwIfAborted()
    outage.value = 'The operator does not answer.'
    throw new CallError(0, 'no-answer', `the operator does not answer: ${describeCause(error)}`)
  }
  lastAnswerMs.value = Date.now()
  outage.value = ''
  if (response.ok) {
    access.value = 'open'
    return response
  }
  const error = await readError(response)
  if (error.status === 401) rejectLogin(error.message)
  else access.value = 'open'
  throw error
}

const describeCause = (error: unknown) => (error instanceof Error ? error.message : 'unknown cause')

async function readError(response: Response): Promise<CallError> {
  const { status } = response
  try {
    const { error } = (await response.json()) as ErrorAnswer
    return new CallError(status, error.code, error.message, error.problems)
  } catch {
    return new CallError(status, 'unexpected', `the operator answered with status ${status}`)
  }
}
