import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { type RateLimitDomain, rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { type CallerAuthentication, openAccess } from '../api/access.ts'
import { streamPreviewExample } from '../api/examples.ts'
import { apiPath } from '../api/openapi-document.ts'
import { OperatorApi } from '../api/operator-api.ts'
import type { CounterChangeAnswer, ErrorAnswer } from '../api/shapes.ts'
import type { ApiSources, CounterChangeEvent } from '../api/sources.ts'
import type { BrokerResult } from '../broker-queries/stream-rows.ts'
import { createOperatorServer } from '../environments/host/start.ts'
import { streamRouteType } from '../kinds/animation-stream-route/stream-route.ts'
import { createFeedStates } from '../leader/feed-states.ts'
import { Feed } from '../xds/feed.ts'
import { playPods } from './played-pods.ts'

type ApiOptions = ConstructorParameters<typeof OperatorApi>[0]

const rule = (key: string, unlimited = false) => ({
  key,
  value: '',
  descriptors: [],
  rateLimit: { unit: 'minute', requestsPerUnit: unlimited ? 0 : 10, unlimited, name: '', replaces: [] },
  shadowMode: false,
  detailedMetric: false,
  quotaMode: false,
  valueToMetric: false,
  shareThreshold: false,
})

const checkout: RateLimitDomain = {
  name: 'shop/checkout',
  domain: 'checkout',
  descriptors: [rule('user'), rule('path'), rule('staff', true)],
}

const condition = (type: string) => ({
  type,
  status: 'True' as const,
  reason: 'Enforced',
  message: '2 of 2 processes enforce it',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
})

/** Returns a resource that all processes enforce. */
export const playedResource = (kind: string, namespace: string, name: string) => ({
  kind,
  namespace,
  name,
  uid: `uid-of-${name}`,
  origin: `${name}.yaml`,
  observedGeneration: 1,
  subject: name,
  counts: { rules: 1 },
  enforced: '2/2',
  problems: [],
  conditions: [condition('Ready'), condition('CredentialsReady')],
})

export type AnswerBody = Omit<CounterChangeAnswer, 'counters'> &
  ErrorAnswer & {
    readonly items: readonly {
      domain: string
      owner: CounterChangeEvent['owner']
      name: string
      callsPerSecond: number
    }[]
    readonly next?: string
  }

interface ServedApi {
  readonly access?: CallerAuthentication
  readonly limits?: ApiOptions['limits']
  readonly apply?: ApiSources['apply']
  readonly manifest?: ApiSources['manifest']
  readonly books?: ApiSources['books']
  readonly domainGrants?: ApiSources['domainGrants']
  readonly more?: readonly ReturnType<typeof playedResource>[]
  readonly brokers?: readonly BrokerResult[]
  /** The problem with which brokers answer instead of a preview. */
  readonly previewProblem?: string
  readonly feedStates?: ApiSources['feedStates'] | undefined
  /** Answers of real processes, which replace those of the played pods. */
  readonly sessions?: ApiSources['pods'] | undefined
}

const notWritten: ApiSources['apply'] = async () => ({
  created: false,
  origin: 'checkout.yaml',
  version: '2',
})
const written: ApiSources['manifest'] = async () => ({
  manifest: 'kind: RateLimitConfig\n',
  version: '1',
  origin: 'checkout.yaml',
})

const money = (currency: string, amount: string) => ({ currency, amount, exponent: 2 })
const cafeBooks: ApiSources['books'] = async () => ({
  balances: new Map([['uid-of-cafe', { available: money('DKK', '49165'), pending: [money('EUR', '5')] }]]),
  lastVerify: {
    beganMs: 1_000,
    endedMs: 2_500,
    records: { merchants: 2 },
    findings: 2,
    shown: [
      { uid: 'uid-of-cafe', record: 'merchant 1', message: 'its balance is 2; its lines make it 1' },
      { uid: undefined, record: 'merchant 2', message: 'its balance is 4; its lines make it 3' },
    ],
  },
})

/** Serves the API on a loopback address with played pods, until the test ends. */
export async function serveApi(
  t: Pick<TestContext, 'after'>,
  {
    access = openAccess,
    limits = {},
    apply = notWritten,
    manifest = written,
    books = cafeBooks,
    sessions,
    feedStates,
    more = [],
    domainGrants = new Map(),
    brokers = [{ address: 'broker-0', problem: 'does not answer' }],
    previewProblem,
  }: ServedApi = {},
) {
  const lines: string[] = []
  const log = createLog({ level: 'debug', format: 'json', write: line => lines.push(line) })
  const pods = playPods()
  const changes: CounterChangeEvent[] = []
  const feed = new Feed({
    typeUrls: [rateLimitTypeUrl, streamRouteType],
    ids: () => 'id',
    clock: systemClock,
    log,
  })
  const resources = [
    playedResource('RateLimitConfig', 'shop', 'checkout'),
    playedResource('RateLimitConfig', 'bank', 'loans'),
    playedResource('Merchant', 'shop', 'cafe'),
    ...more,
  ]
  const sources = {
    clock: systemClock,
    pods: sessions ?? pods,
    report: () => ({ resources }),
    domains: () => [checkout, { ...checkout, name: 'bank/loans', domain: 'loans' }],
    domainGrants,
    feedStates: feedStates ?? createFeedStates(feed),
    brokers: {
      list: async () => brokers,
      preview: async (key: string) =>
        previewProblem !== undefined
          ? { problem: previewProblem }
          : key === streamPreviewExample.key
            ? { preview: streamPreviewExample }
            : ({ unknown: true } as const),
    },
    books,
    apply,
    manifest,
  }
  const api = new OperatorApi({
    sources,
    access,
    log,
    limits,
    onCounterChange: change => changes.push(change),
  })
  const server = createOperatorServer(() => assert.fail('the status'), api)
  const port = await listenHttp(server, { host: '127.0.0.1', port: 0 })
  t.after(() => closeHttp(server, 0))
  const url = `http://127.0.0.1:${port}${apiPath}`
  const ask = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${url}${path}`, init)
    return { status: response.status, headers: response.headers, body: (await response.json()) as AnswerBody }
  }
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    ask(path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    })
  return { api, pods, changes, lines, url, port, ask, post }
}
