import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { errorBody, toApiError } from '../api-error.ts'
import { eventText } from '../openapi-document.ts'

/** The cause of the end of a stream, in its event `end`. A client then connects again. */
export type StreamEnd = 'stopping' | 'renew' | 'finished' | 'slow'

const reconnectMs = 1_000
/** A proxy may end a connection that is silent for a minute. */
const heartbeatMs = 15_000

/**
 * Sends items as events of the given name until the source ends, with an event `error` or `end` as the last
 * one. A client that reads nothing for `slowMs` is disconnected.
 *
 * @param reasonOf returns why the signal of the source was aborted
 */
export async function sendEvents(
  response: ServerResponse,
  event: string,
  items: AsyncIterable<unknown>,
  { reasonOf, slowMs }: { readonly reasonOf: () => StreamEnd; readonly slowMs: number },
): Promise<void> {
  response.write(`retry: ${reconnectMs}\n\n`)
  const heartbeat = setInterval(() => response.write(': the stream is open\n\n'), heartbeatMs).unref()
  try {
    for await (const item of items) {
      if (response.destroyed) return
      if (!response.write(eventText(event, item))) await drained(response, slowMs)
    }
    response.end(eventText('end', { reason: reasonOf() }))
  } catch (error) {
    if (response.destroyed) return
    const known = toApiError(error)
    if (known === undefined) throw error
    response.end(eventText('error', errorBody(known)))
  } finally {
    clearInterval(heartbeat)
  }
}

/** Resolves when the client has read. Destroys the connection if it does not read. */
async function drained(response: ServerResponse, slowMs: number): Promise<void> {
  const slow = setTimeout(() => response.destroy(), slowMs)
  try {
    await Promise.race([once(response, 'drain'), once(response, 'close')])
  } finally {
    clearTimeout(slow)
  }
}
