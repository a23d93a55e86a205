import { GrpcError } from '@tollway/grpc/status.ts'
import type { Brokers, PreviewResult } from '../broker-queries/brokers.ts'
import type { BrokerResult } from '../broker-queries/stream-rows.ts'
import { QueryError } from '../pods/query-error.ts'
import type { Reports } from '../pods/session-table.ts'
import type { PodSessions, WhatIfStep } from '../ratelimit-queries/pod-sessions.ts'
import type { FeedStates } from './feed-states.ts'
import {
  type DecodedQuery,
  decodeQuery,
  encodeAnswer,
  encodeFailure,
  type NewAnswer,
  type QueryFields,
  type QueryName,
} from './query-messages.ts'

export interface QueriedParts {
  readonly pods: PodSessions
  readonly brokers: Brokers
  readonly feedStates: FeedStates
}

type Answers = {
  readonly [Name in QueryName]: (
    fields: QueryFields<Name>,
    parts: QueriedParts,
    signal: AbortSignal,
  ) => AsyncIterable<NewAnswer<Name>> | Promise<NewAnswer<Name>>
}

const noAddress = { domain: '', entries: [] }

const answers: Answers = {
  pods: (page, { pods }) => pods.pods(page),
  domains: (page, { pods }) => pods.domains(page),
  rules: ({ domain, page, sumsOnly }, { pods }) => pods.rules(domain, { ...page, sumsOnly }),
  counter: (at, { pods }) => pods.counter(at),
  reset: (at, { pods }) => pods.reset(at),
  raise: ({ at = noAddress, by }, { pods }) => pods.raise(at, by),
  top: ({ domain, rule, byRefused }, { pods }) =>
    pods.top({ domain, rule, by: byRefused ? 'rejected' : 'hits' }),
  history: async (query, { pods }) => ({ points: await pods.history(query) }),
  series: (watched, { pods }, signal) => pods.series(watched, signal),
  tap: (watched, { pods }, signal) => pods.tap(watched, signal),
  whatIf: (query, { pods }, signal) => mapEach(pods.whatIf(query, signal), toStepMessage),
  brokers: async (_, { brokers }) => ({ brokers: (await brokers.list()).map(toBrokerMessage) }),
  preview: async ({ key }, { brokers }) => toPreviewMessage(await brokers.preview(key)),
  feedState: ({ typeUrl, names }, { feedStates }) => feedStates.read(typeUrl, names),
}

/** Answers the query in the first request. A series of answers ends when the signal is aborted. */
export async function* answerQuery(
  requests: Reports,
  parts: QueriedParts,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const first = await requests[Symbol.asyncIterator]().next()
  if (first.done === true) throw new GrpcError('INVALID_ARGUMENT', 'the call has no query')
  const query = decodeQuery(first.value)
  try {
    for await (const answer of answersTo(query, parts, signal)) yield encodeAnswer(query.name, answer)
  } catch (error) {
    if (!(error instanceof QueryError)) throw error
    yield encodeFailure(error)
  }
}

async function* answersTo<Name extends QueryName>(
  { name, fields }: DecodedQuery<Name>,
  parts: QueriedParts,
  signal: AbortSignal,
): AsyncGenerator<NewAnswer<Name>> {
  const answer = answers[name](fields, parts, signal)
  if (answer instanceof Promise) yield await answer
  else yield* answer
}

async function* mapEach<From, To>(items: AsyncIterable<From>, map: (item: From) => To): AsyncGenerator<To> {
  for await (const item of items) yield map(item)
}

function toStepMessage(step: WhatIfStep): NewAnswer<'whatIf'> {
  return step.kind === 'progress'
    ? { step: { case: 'progress', value: step.progress } }
    : { step: { case: 'result', value: step.result } }
}

function toBrokerMessage(result: BrokerResult): NewAnswer<'brokers'>['brokers'][number] {
  const { address } = result
  return 'page' in result
    ? { address, result: { case: 'page', value: result.page } }
    : { address, result: { case: 'problem', value: result.problem } }
}

function toPreviewMessage(result: PreviewResult): NewAnswer<'preview'> {
  if ('unknown' in result) return { result: { case: 'unknown', value: true } }
  if ('problem' in result) return { result: { case: 'problem', value: result.problem } }
  const { preview, ...request } = result.preview
  const audio = preview?.audio && {
    ...preview.audio,
    envelope: preview.audio.envelope.map(part => ({ lowest: part?.[0], highest: part?.[1] })),
  }
  return { result: { case: 'preview', value: { ...request, preview: preview && { ...preview, audio } } } }
}
