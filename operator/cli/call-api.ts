import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { deadlines } from '../api/deadlines.ts'
import { apiPath } from '../api/openapi-document.ts'
import { readEvents } from '../api/read-events.ts'
import type { ErrorAnswer } from '../api/shapes.ts'
import type { OperatorAddress } from './find-operator.ts'

/**
 * @param path the path below /api/v1, with the query
 * @param body the JSON of a POST; undefined for a GET
 * @param deadlineMs the time limit of the whole answer
 * @throws Error that names the address and the cause, and never contains a token
 */
export async function callApi<Answer>(
  address: OperatorAddress,
  path: string,
  body?: unknown,
  deadlineMs: number = deadlines.change,
): Promise<Answer> {
  const response = await send(address, path, AbortSignal.timeout(deadlineMs), body)
  const answer = (await response.json().catch(() => undefined)) as Answer | undefined
  if (answer === undefined) throw new Error(`${address.url.origin}: the answer is not JSON`)
  return answer
}

/** Yields the data of each event until the signal is aborted. Reconnects when the stream ends. */
export async function* followApi<Data>(
  address: OperatorAddress,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<Data> {
  while (!signal.aborted) {
    const response = await send(address, path, signal)
    try {
      for await (const { name, data } of readEvents(response)) {
        if (name === 'error') throw new Error(describeError(data as ErrorAnswer))
        if (name === 'end') break
        yield data as Data
      }
    } catch (error) {
      // The operator closed the connection (a TypeError), or the user ended the command.
      if (!signal.aborted && !(error instanceof TypeError)) throw error
    }
    if (signal.aborted) return
    await new Promise(resolve => setTimeout(resolve, reconnectMs))
  }
}

const reconnectMs = 1_000

async function send(
  { url, token }: OperatorAddress,
  path: string,
  signal: AbortSignal,
  body?: unknown,
): Promise<Response> {
  const base = `${url.origin}${url.pathname.replace(/\/$/, '')}${apiPath}`
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  let response: Response
  try {
    response = await fetch(`${base}${path}`, { ...init, headers, signal, redirect: 'error' })
  } catch (error) {
    throw new Error(`${url.origin}: ${describeConnectionError(error)}`)
  }
  if (response.ok) return response
  const answer = (await response.json().catch(() => undefined)) as ErrorAnswer | undefined
  const advice =
    response.status === 401 ? '; name a token with --token-file, see: kubectl create token --help' : ''
  const cause = answer?.error === undefined ? `answered ${response.status}` : describeError(answer)
  throw new Error(`${url.origin}: ${cause}${advice}`)
}

/** Returns the message or, if the answer has several problems, a line for each problem. */
function describeError({ error: { message, problems = [] } }: ErrorAnswer): string {
  if (problems.length < 2) return escapeControls(message)
  return problems.map(one => `\n  ${escapeControls(`${one.field}: ${one.message}`)}`).join('')
}
