import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

export interface RetryingClient {
  /** Repeats a POST with one key until an answer has the outcome. */
  post(path: string, json: object): Promise<Answer>
  counts(): Counts
}

export interface Counts {
  readonly sent: number
  /** The waits for an outcome of at least 100 ms, by the clock of this process. */
  readonly waits: readonly Wait[]
  readonly replayed: number
  readonly longestMs: number
  /** The requests of the longest wait, for the message of a failure. */
  readonly longest: string
}

export interface Wait {
  readonly beginMs: number
  readonly endMs: number
}

export interface Answer {
  readonly status: number
  readonly body: string
  readonly replayed: boolean
  /** The time until the connection was open. */
  readonly connectedMs: number
}

export interface RetryingClientOptions {
  readonly url: string
  readonly authorization: string
  /** The test fails if no answer comes within this time. */
  readonly deadlineMs: number
}

const requestTimeoutMs = 5_000
const waitMs = 50
/** Shorter waits are not noted. */
const notedWaitMs = 100

export function createRetryingClient(options: RetryingClientOptions): RetryingClient {
  let sent = 0
  let replayed = 0
  let longestMs = 0
  let longest = ''
  const waits: Wait[] = []
  return {
    async post(path, json) {
      const key = randomUUID()
      const startMs = performance.now()
      const requests: string[] = []
      for (;;) {
        sent += 1
        const sentMs = performance.now()
        const answer = await postOnce(options, path, json, key)
        const nowMs = performance.now()
        const waitedMs = nowMs - startMs
        requests.push(describe(answer, nowMs - sentMs))
        if (answer !== undefined && isFinal(answer)) {
          if (answer.replayed) replayed += 1
          if (waitedMs >= notedWaitMs) waits.push({ beginMs: startMs, endMs: nowMs })
          if (waitedMs > longestMs) {
            longestMs = waitedMs
            longest = requests.join(', then ')
          }
          return answer
        }
        const last = answer === undefined ? 'none' : `${answer.status} ${answer.body}`
        assert.ok(
          waitedMs < options.deadlineMs,
          `no answer to ${path} in ${waitedMs} ms; the last was ${last}`,
        )
        await pause(waitMs)
      }
    },
    counts: () => ({ sent, waits, replayed, longestMs: Math.round(longestMs), longest }),
  }
}

function describe(answer: Answer | undefined, tookMs: number): string {
  if (answer === undefined) return `no answer in ${Math.round(tookMs)} ms`
  return `${answer.status} in ${Math.round(tookMs)} ms (connected after ${Math.round(answer.connectedMs)} ms)`
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
  const startMs = performance.now()
  let connectedMs = Number.NaN
  return new Promise(resolve => {
    const options = { method: 'POST', agent: false, timeout: timeoutMs, headers }
    const outgoing = request(url + path, options, async response => {
      try {
        let text = ''
        for await (const chunk of response) text += chunk
        const wasReplayed = response.headers['idempotency-replayed'] === 'true'
        resolve({ status: response.statusCode ?? 0, body: text, replayed: wasReplayed, connectedMs })
      } catch {
        resolve(undefined)
      }
    })
    outgoing.on('socket', socket =>
      socket.once('connect', () => {
        connectedMs = performance.now() - startMs
      }),
    )
    outgoing.on('timeout', () => outgoing.destroy())
    outgoing.on('error', () => resolve(undefined)).on('close', () => resolve(undefined))
    outgoing.end(body)
  })
}
