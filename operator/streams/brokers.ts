import type { Clock } from '@tollway/chassis/clock.ts'
import type { LeaderQueries } from '../xds/sessions/ask-leader.ts'
import { askingProcesses } from '../xds/sessions/ask-processes.ts'
import { oneAnswer as one, type ServedQueries } from '../xds/sessions/serve-queries.ts'
import type { BrokerSession, Report, Request } from './broker-session.ts'
import { readStreamsPage } from './read-streams-page.ts'
import type { BrokerLook } from './stream-rows.ts'

/** The requests of all brokers. */
export interface Brokers {
  /** Reads the requests of all brokers. A broker that does not answer has an entry with its problem. */
  list(): Promise<readonly BrokerLook[]>
  /** Reads the preview of a request by its key. */
  preview(key: string): Promise<PreviewResult>
}

export type PreviewResult =
  | { readonly preview: object }
  /** No broker knows the request. */
  | { readonly unknown: true }
  /** No broker that answered knows the request, and others did not answer. */
  | { readonly problem: string }

export interface BrokersOptions {
  readonly sessions: () => readonly BrokerSession[]
  /** The brokers that run. */
  readonly expected: () => readonly ExpectedBroker[]
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly timing?: Partial<BrokersTiming>
}

export interface ExpectedBroker {
  readonly name: string
  readonly uid: string
  /** Why the broker is not ready; empty if it is. */
  readonly reason: string
}

export interface BrokersTiming {
  readonly deadlineMs: number
  /** The time for which a list is given again: many consoles ask for the same one. */
  readonly keepMs: number
}

const askProcesses = askingProcesses<Report, Request>()
const defaultTiming: BrokersTiming = { deadlineMs: 3_000, keepMs: 1_000 }

/** The bytes of the lists of all brokers together, and of one. A message to an operator has at most 4 MiB. */
const maxListsBytes = 32 * 1024 * 1024
const maxListBytes = 3 * 1024 * 1024
const maxPreviewBytes = 128 * 1024

/** Asks the brokers that are connected to this operator. */
export function createBrokers({ sessions, expected, clock, timing }: BrokersOptions): Brokers {
  const { deadlineMs, keepMs } = { ...defaultTiming, ...timing }
  let kept: { readonly untilMs: number; readonly looks: Promise<readonly BrokerLook[]> } | undefined
  const inTime = `does not answer within ${deadlineMs / 1000} s`

  async function ask(): Promise<readonly BrokerLook[]> {
    const connected = sessions()
    const maxBytes = Math.min(maxListBytes, Math.floor(maxListsBytes / Math.max(1, connected.length)))
    const request = (id: bigint) => ({ case: 'list', value: { id, maxBytes } }) as const
    const { answers, missing } = await askProcesses(connected, request, answerIn, deadlineMs)
    const uids = new Set(connected.map(({ uid }) => uid))
    const apart = expected().filter(({ uid }) => !uids.has(uid))
    return [
      ...answers.map(({ session, value }) => lookOf(session.name, value)),
      ...missing.map(({ name }) => ({ address: name, problem: inTime })),
      ...apart.map(({ name, reason }) => ({ address: name, problem: reason || noSession })),
    ].sort((a, b) => (a.address < b.address ? -1 : 1))
  }

  return {
    list() {
      const nowMs = clock.monotonicMs()
      if (kept === undefined || kept.untilMs <= nowMs) kept = { untilMs: nowMs + keepMs, looks: ask() }
      return kept.looks
    },
    async preview(key) {
      const request = (id: bigint) => ({ case: 'preview', value: { id, key } }) as const
      const { answers, missing } = await askProcesses(sessions(), request, answerIn, deadlineMs)
      const results = answers.map(({ session, value }) => previewOf(session.name, value))
      const found = results.find(result => 'preview' in result)
      if (found !== undefined) return found
      const [silent] = missing
      if (silent !== undefined) return { problem: `${silent.name}: ${inTime}` }
      return results.find(result => 'problem' in result) ?? { unknown: true }
    },
  }
}

const noSession = 'has no session with the operator'

type Answer = Extract<Report, { case: 'answer' }>['value']

const answerIn = (report: Report) => (report.case === 'answer' ? report.value : undefined)

function lookOf(address: string, { json, problem }: Answer): BrokerLook {
  if (problem !== '') return { address, problem }
  const page = readStreamsPage(parse(json))
  return page === undefined ? { address, problem: 'answers with no list of requests' } : { address, page }
}

function previewOf(name: string, { json, problem }: Answer): PreviewResult {
  if (problem !== '') return { problem: `${name}: ${problem}` }
  if (json === '') return { unknown: true }
  const page = json.length > maxPreviewBytes ? undefined : (parse(json) as { preview?: unknown } | null)
  return typeof page?.preview === 'object'
    ? { preview: page }
    : { problem: `${name}: answers with no preview` }
}

/** Returns undefined for text that is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The queries that this operator answers for others, each with its arguments. */
export const brokerQueries = (brokers: Brokers) =>
  ({
    brokers: () => one(brokers.list()),
    preview: ([key]) => one(brokers.preview(key as never)),
  }) satisfies ServedQueries

/** Answers by the operator with the Lease, which has the sessions of all brokers; without one, locally. */
export function brokersViaLeader(local: Brokers, { isLocal, askOnce }: LeaderQueries): Brokers {
  return {
    list: () => (isLocal() ? local.list() : askOnce('brokers')),
    preview: key => (isLocal() ? local.preview(key) : askOnce('preview', key)),
  }
}
