import type { Clock } from '@tollway/chassis/clock.ts'
import { parseJson } from '@tollway/chassis/json.ts'
import { askingProcesses } from '../pods/ask-processes.ts'
import type { BrokerSession, BrokerSessionReport, BrokerSessionRequest } from './broker-session.ts'
import { type PreviewPage, readPreview, readStreamsPage } from './read-pages.ts'
import type { BrokerResult } from './stream-rows.ts'

export interface Brokers {
  /** Reads the requests of all brokers. A broker that does not answer has an entry with its problem. */
  list(): Promise<readonly BrokerResult[]>
  /** Reads the preview of the request with this key from a broker that has one. */
  preview(key: string): Promise<PreviewResult>
}

export type PreviewResult =
  | { readonly preview: PreviewPage }
  /** No broker knows the request. */
  | { readonly unknown: true }
  /** No broker has returned a preview, and at least one did not answer or answered with a problem. */
  | { readonly problem: string }

interface BrokersOptions {
  readonly sessions: () => readonly BrokerSession[]
  /** Returns the brokers that run, with or without a session. */
  readonly expected: () => readonly ExpectedBroker[]
  /** The time limit of an answer, in milliseconds: 3,000 when left out. */
  readonly deadlineMs?: number
}

export interface ExpectedBroker {
  readonly name: string
  readonly uid: string
  /** Why the broker is not ready; empty if it is. */
  readonly reason: string
}

const askProcesses = askingProcesses<BrokerSessionReport, BrokerSessionRequest>()

/** The maximum bytes of the lists of all brokers together, and of the list of one broker. */
const maxListsBytes = 32 * 1024 * 1024
const maxListBytes = 3 * 1024 * 1024
const maxPreviewBytes = 128 * 1024

export function createBrokers({ sessions, expected, deadlineMs = 3_000 }: BrokersOptions): Brokers {
  const inTime = `does not answer within ${deadlineMs / 1000} s`

  return {
    async list() {
      const connected = sessions()
      const maxBytes = Math.min(maxListBytes, Math.floor(maxListsBytes / Math.max(1, connected.length)))
      const request = (id: bigint) => ({ case: 'list', value: { id, maxBytes } }) as const
      const { answers, missing } = await askProcesses(connected, request, readAnswer(maxBytes), deadlineMs)
      const uids = new Set(connected.map(({ uid }) => uid))
      const apart = expected().filter(({ uid }) => !uids.has(uid))
      return [
        ...answers.map(({ session, value }) => toBrokerResult(session.name, value)),
        ...missing.map(({ name }) => ({ address: name, problem: inTime })),
        ...apart.map(({ name, reason }) => ({ address: name, problem: reason || noSession })),
      ].sort((a, b) => (a.address < b.address ? -1 : 1))
    },
    async preview(key) {
      const request = (id: bigint) => ({ case: 'preview', value: { id, key } }) as const
      const answer = readAnswer(maxPreviewBytes)
      const read = (report: BrokerSessionReport) => readPreviewAnswer(answer(report), key)
      const { answers, missing } = await askProcesses(sessions(), request, read, deadlineMs, hasPreview)
      const found = answers.find(({ value }) => hasPreview(value))
      if (found !== undefined) return found.value
      const [silent] = missing
      if (silent !== undefined) return { problem: `${silent.name}: ${inTime}` }
      const failed = answers.flatMap(({ session, value }) =>
        'problem' in value ? [{ problem: `${session.name}: ${value.problem}` }] : [],
      )
      return failed[0] ?? { unknown: true }
    },
  }
}

const noSession = 'has no session with the operator'

type BrokerAnswer = Pick<Extract<BrokerSessionReport, { case: 'answer' }>['value'], 'json' | 'problem'>

/** Returns the answer in a report. JSON that is longer than `maxBytes` is replaced by a problem. */
const readAnswer =
  (maxBytes: number) =>
  (report: BrokerSessionReport): BrokerAnswer | undefined => {
    if (report.case !== 'answer') return undefined
    const { json, problem } = report.value
    if (json.length > maxBytes) return { json: '', problem: `answers with more than ${maxBytes} bytes` }
    return { json, problem: problem.slice(0, maxProblemChars) }
  }

const maxProblemChars = 300

function toBrokerResult(address: string, { json, problem }: BrokerAnswer): BrokerResult {
  if (problem !== '') return { address, problem }
  const page = readStreamsPage(parseJson(json))
  return page === undefined ? { address, problem: 'answers with no list of requests' } : { address, page }
}

const hasPreview = (result: PreviewResult) => 'preview' in result

function readPreviewAnswer(answer: BrokerAnswer | undefined, key: string): PreviewResult | undefined {
  if (answer === undefined) return undefined
  const { json, problem } = answer
  if (problem !== '') return { problem }
  if (json === '') return { unknown: true }
  const preview = readPreview(parseJson(json), key)
  return preview === undefined ? { problem: 'answers with no preview of the request' } : { preview }
}

/** How long callers share a list: many consoles ask for the same one. */
const listCacheMs = 1_000

/**
 * Returns the same queries with a shared `list`: the brokers are asked at most once per second, and never for
 * two lists at the same time.
 */
export function shareLists(brokers: Brokers, { monotonicMs }: Pick<Clock, 'monotonicMs'>): Brokers {
  let cached: { readonly untilMs: number; readonly results: ReturnType<Brokers['list']> } | undefined
  let isRunning = false
  return {
    preview: brokers.preview,
    list() {
      const nowMs = monotonicMs()
      if (cached !== undefined && (isRunning || nowMs < cached.untilMs)) return cached.results
      isRunning = true
      const results = brokers.list().finally(() => {
        isRunning = false
      })
      cached = { untilMs: nowMs + listCacheMs, results }
      return results
    },
  }
}
