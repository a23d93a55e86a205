import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

export interface RetryingClient {
  /** Repeats a POST with one key until an answer has the outcome. */
  post(path: string, json: object): Promise<Answer>
  /** The number of sent requests and of replayed answers, and the longest wait. */
  counts(): { readonly sent: number; readonly replayed: number; readonly longestMs: number }
}

export interface Answer {
  readonly status: number
  readonly body: string
  readonly replayed: boolean
}

export interface RetryingClientOptions {
  readonly url: string
  readonly authorization: string
  /** The test fails if no answer comes within this time. */
  readonly deadlineMs: number
}

const requestTimeoutMs = 5_000
const waitMs = 50

export function createRetryingClient(options: RetryingClientOptions): RetryingClient {
  let sent = 0
  let replayed = 0
  let longestMs = 0
  return {
    async post(path, json) {
      const key = randomUUID()
      const startMs = performance.now()
      for (;;) {
        sent += 1
        const answer = await postOnce(options, path, json, key)
        if (answer !== undefined && isFinal(answer)) {
          if (answer.replayed) replayed += 1
          longestMs = Math.max(longestMs, performance.now() - startMs)
          return answer
        }
        const waitedMs = performance.now() - startMs
        const last = answer === undefined ? 'none' : `${answer.status} ${answer.body}`
        assert.ok(
          waitedMs < options.deadlineMs,
          `no answer to ${path} in ${waitedMs} ms; the last was ${last}`,
        )
        await pause(waitMs)
      }
    },
    counts: () => ({ sent, replayed, longestMs: Math.round(longestMs) }),
  }
}

/** A 500 would be a defect, and is not retried. */
function isFinal({ status, body }: Answer): boolean {
  return status !== 503 && !(status === 409 && body.includes('idempotency_in_progress'))
}

export interface PostTarget extends Pick<RetryingClientOptions, 'url' | 'authorization'> {
  /** How long the client waits for the answer; 5 s by default. */
  readonly timeoutMs?: number
}

/** Posts on a separate connection. Resolves with undefined when the client got no answer in time. */
export function postOnce(
  { url, authorization, timeoutMs = requestTimeoutMs }: PostTarget,
  path: string,
  json: object,
  key: string,
): Promise<Answer | undefined> {
  const body = JSON.stringify(json)
  const headers = {
    authorization,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'idempotency-key': key,
  }
  return new Promise(resolve => {
    const options = { method: 'POST', agent: false, timeout: timeoutMs, headers }
    const outgoing = request(url + path, options, async response => {
      try {
        let text = ''
        for await (const chunk of response) text += chunk
        const wasReplayed = response.headers['idempotency-replayed'] === 'true'
        resolve({ status: response.statusCode ?? 0, body: text, replayed: wasReplayed })
      } catch {
        resolve(undefined)
      }
    })
    outgoing.on('timeout', () => outgoing.destroy())
    outgoing.on('error', () => resolve(undefined)).on('close', () => resolve(undefined))
    outgoing.end(body)
  })
}
