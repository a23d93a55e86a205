import type { IncomingMessage } from 'node:http'
import { request } from '@tollway/chassis/net/node-http.ts'
import { readBoundedBody } from '@tollway/chassis/net/read-bounded-body.ts'

/** Polls pods for whether their backends answer. */
export type BackendPoll = ReturnType<typeof pollBackends>

export interface PolledPod {
  readonly uid: string
  /** The base URL of the pod's metrics: `http://10.0.0.7:9090`. */
  readonly url: string
}

interface BackendPollOptions {
  /** Returns the pods to poll: those that accept calls. */
  readonly pods: () => readonly PolledPod[]
  /** Called after a round in which the problem of a pod has changed. */
  readonly onChange: () => void
  readonly timing?: Partial<BackendPollTiming>
}

export interface BackendPollTiming {
  readonly intervalMs: number
  readonly timeoutMs: number
  readonly concurrency: number
}

const defaultTiming: BackendPollTiming = { intervalMs: 5_000, timeoutMs: 2_000, concurrency: 16 }

/** At this path each service answers with 200, or with 503 and the cause. */
const path = '/backend'
const maxBodyBytes = 4_096
const maxProblemChars = 300

/**
 * Polls a page on each pod's metrics port, so that pods need no rights and no connection to report failures.
 * A pod that does not answer keeps its last result, because the kubelet decides about readiness.
 */
export function pollBackends({ pods, onChange, timing }: BackendPollOptions) {
  const { intervalMs, timeoutMs, concurrency } = { ...defaultTiming, ...timing }
  let problems: ReadonlyMap<string, string> = new Map()
  let stopped = false
  let timer: NodeJS.Timeout | undefined

  async function round(): Promise<void> {
    const waiting = [...pods()]
    const found = new Map<string, string>()
    async function work(): Promise<void> {
      for (let pod = waiting.shift(); pod !== undefined && !stopped; pod = waiting.shift()) {
        const { uid, url } = pod
        const problem = (await ask(`${url}${path}`, timeoutMs)) ?? problems.get(uid) ?? ''
        if (problem !== '') found.set(uid, problem)
      }
    }
    await Promise.all(Array.from({ length: concurrency }, work))
    if (stopped) return
    const isSame =
      found.size === problems.size && [...found].every(([uid, text]) => problems.get(uid) === text)
    problems = found
    timer = setTimeout(round, intervalMs).unref()
    if (!isSame) onChange()
  }

  timer = setTimeout(round, intervalMs).unref()
  return {
    /** Returns why the pod's backend fails; undefined if it answers, or if that is unknown. */
    findProblem: (uid: string): string | undefined => problems.get(uid),
    stop(): void {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** Resolves with why the backend fails; empty if it answers; undefined if the pod gives no usable answer. */
function ask(url: string, timeoutMs: number): Promise<string | undefined> {
  return new Promise(resolve => {
    const call = request(url, { agent: false, signal: AbortSignal.timeout(timeoutMs) }, response => {
      readAnswer(response).then(resolve, () => resolve(undefined))
    })
    call.on('error', () => resolve(undefined)).end()
  })
}

async function readAnswer(response: IncomingMessage): Promise<string | undefined> {
  const body = await readBoundedBody(response, maxBodyBytes)
  if (response.statusCode === 200) return ''
  return response.statusCode === 503 ? printableLine(body ?? '') || 'no cause is reported' : undefined
}

/** Returns printable ASCII in one line, truncated, because the text is shown in conditions and terminals. */
export function printableLine(text: string): string {
  return text
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, maxProblemChars)
}
