import { GrpcError } from '@tollway/grpc/status.ts'
import type { QueryAnswer } from '@tollway/proto/tollway/operator/v1/leader'
import type { Brokers, PreviewResult } from '../broker-queries/brokers.ts'
import type { BrokerResult } from '../broker-queries/stream-rows.ts'
import { QueryError } from '../pods/query-error.ts'
import {
  type CounterAddress,
  type PodSessions,
  type Watched,
  type WhatIfQuery,
  type WhatIfStep,
  zeroHits,
} from '../ratelimit-queries/pod-sessions.ts'
import type { FeedStates } from './feed-states.ts'
import type { LeaderConnection } from './leader-connection.ts'
import { leaderPath } from './leader-service.ts'
import {
  type AnswerFields,
  decodeAnswer,
  encodeQuery,
  type NewQuery,
  type QueryName,
  readAnswer,
} from './query-messages.ts'

/**
 * How long this operator waits for an answer. The operator with the Lease waits some seconds for processes.
 */
const deadlineMs = 10_000

const codec = { encode: (query: Uint8Array) => query, decode: decodeAnswer }

class LeaderQueries {
  readonly #leader: Pick<LeaderConnection, 'current'>

  constructor(leader: Pick<LeaderConnection, 'current'>) {
    this.#leader = leader
  }

  /** Returns whether this operator has the Lease or knows no leader, and so answers queries itself. */
  isLocal(): boolean {
    return this.#leader.current() === undefined
  }

  /** Yields the answers to a query until the signal is aborted. Throws `QueryError`. */
  async *ask<Name extends QueryName>(
    name: Name,
    fields: NewQuery<Name>,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerFields<Name>> {
    const leader = this.#leader.current()
    if (leader === undefined) return
    const either = AbortSignal.any([signal, leader.signal])
    const call = leader.client.bidi<Uint8Array, QueryAnswer>(leaderPath('Query'), codec, { signal: either })
    void call.write(encodeQuery(name, fields))
    call.end()
    try {
      for await (const answer of call.messages) yield readAnswer(name, answer)
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof GrpcError)) throw error
      throw new QueryError('deadline', `ask the operator with the Lease: ${error.message}`)
    }
  }

  /** Resolves with the only answer to a query. Rejects with `QueryError`. */
  async askOnce<Name extends QueryName>(name: Name, fields: NewQuery<Name>): Promise<AnswerFields<Name>> {
    for await (const answer of this.ask(name, fields, AbortSignal.timeout(deadlineMs))) return answer
    throw new QueryError('deadline', `the operator with the Lease did not answer within ${deadlineMs} ms`)
  }
}

/**
 * Returns queries that the operator with the Lease answers, since it has the sessions of all rate limit
 * processes. `local` answers while this operator has the Lease or knows no leader.
 */
export function podSessionsViaLeader(
  local: PodSessions,
  leader: Pick<LeaderConnection, 'current'>,
): PodSessions {
  const queries = new LeaderQueries(leader)
  const remote = remotePodSessions(queries)
  const present = () => (queries.isLocal() ? local : remote)
  return {
    pods: page => present().pods(page),
    domains: page => present().domains(page),
    rules: (domain, page) => present().rules(domain, page),
    counter: at => present().counter(at),
    reset: at => present().reset(at),
    raise: (at, by) => present().raise(at, by),
    top: query => present().top(query),
    history: query => present().history(query),
    series: (watched, signal) => present().series(watched, signal),
    tap: (watched, signal) => present().tap(watched, signal),
    whatIf: (query, signal) => present().whatIf(query, signal),
  }
}

function remotePodSessions(queries: LeaderQueries): PodSessions {
  return {
    pods: (page = {}) => queries.askOnce('pods', page),
    async domains(page = {}) {
      const { items, ...rest } = await queries.askOnce('domains', page)
      return { ...rest, items: items.map(withRates) }
    },
    async rules(domain, { sumsOnly = false, ...page } = {}) {
      const { items, ...rest } = await queries.askOnce('rules', { domain, page, sumsOnly })
      return { ...rest, items: items.map(withRates) }
    },
    counter: at => queries.askOnce('counter', at),
    reset: at => queries.askOnce('reset', at),
    raise: (at: CounterAddress, by) => queries.askOnce('raise', { at, by }),
    top: ({ domain, rule, by }) => queries.askOnce('top', { domain, rule, byRefused: by === 'rejected' }),
    history: async query => (await queries.askOnce('history', query)).points,
    series: (watched: Watched, signal) => queries.ask('series', watched, signal),
    tap: (watched: Watched, signal) => queries.ask('tap', watched, signal),
    async *whatIf(query: WhatIfQuery, signal): AsyncGenerator<WhatIfStep> {
      for await (const { step } of queries.ask('whatIf', query, signal)) {
        if (step.case === 'progress') yield { kind: 'progress', progress: step.value }
        if (step.case !== 'result') continue
        const { coverage, ...result } = step.value
        if (coverage !== undefined) yield { kind: 'result', result: { ...result, coverage } }
      }
    },
  }
}

const withRates = <Item extends { readonly perSecond?: ReturnType<typeof zeroHits> }>(item: Item) => ({
  ...item,
  perSecond: item.perSecond ?? zeroHits(),
})

/**
 * Returns queries that the operator with the Lease answers, since it has the sessions of all brokers. `local`
 * answers while this operator has the Lease or knows no leader.
 */
export function brokersViaLeader(local: Brokers, leader: Pick<LeaderConnection, 'current'>): Brokers {
  const queries = new LeaderQueries(leader)
  return {
    async list() {
      if (queries.isLocal()) return local.list()
      return (await queries.askOnce('brokers', {})).brokers.map(toBroker)
    },
    async preview(key) {
      return queries.isLocal() ? local.preview(key) : toPreview(await queries.askOnce('preview', { key }))
    },
  }
}

function toBroker({ address, result }: AnswerFields<'brokers'>['brokers'][number]): BrokerResult {
  if (result.case === 'problem') return { address, problem: result.value }
  if (result.case === undefined) return { address, problem: 'has no answer' }
  const streams = result.value.streams.map(
    ({ producer = null, messages = null, bytes = null, ...request }) => ({
      ...request,
      producer,
      messages,
      bytes,
      end: request.end ?? null,
    }),
  )
  return { address, page: { ...result.value, streams } }
}

function toPreview({ result }: AnswerFields<'preview'>): PreviewResult {
  if (result.case === 'problem') return { problem: result.value }
  if (result.case !== 'preview') return { unknown: true }
  const { preview, ...request } = result.value
  if (preview === undefined) return { preview: { ...request, preview: null } }
  const { seconds = null, audio, ...messages } = preview
  const envelope = audio?.envelope.map(({ lowest, highest }) =>
    lowest === undefined || highest === undefined ? null : [lowest, highest],
  )
  const shown = audio && envelope ? { ...audio, envelope } : null
  return { preview: { ...request, preview: { ...messages, seconds, audio: shown } } }
}

/**
 * Returns queries that the operator with the Lease answers, since it has the reports of all others. `local`
 * answers while this operator has the Lease or knows no leader, and if the leader does not answer or, as
 * during an upgrade, does not know the query.
 */
export function feedStatesViaLeader(
  local: FeedStates,
  leader: Pick<LeaderConnection, 'current'>,
): FeedStates {
  const queries = new LeaderQueries(leader)
  return {
    async read(typeUrl, names) {
      if (queries.isLocal()) return local.read(typeUrl, names)
      try {
        return await queries.askOnce('feedState', { typeUrl, names })
      } catch (error) {
        if (error instanceof QueryError && error.code === 'deadline') return local.read(typeUrl, names)
        throw error
      }
    },
  }
}
