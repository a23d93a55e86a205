import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Health } from '../health.ts'
import type { StreamLog } from '../log/stream-log.ts'
import type { BrokerStats } from '../stats/broker-stats.ts'
import { exposition, expositionType, statEntries } from '../stats/exposition.ts'
import type { Broker } from '../streams/broker.ts'
import { createPageServer, type FindPage, type Page, send } from './page-server.ts'
import { streamsJson, streamsPage } from './streams-page.ts'

export interface PagesOptions {
  readonly broker: Pick<Broker, 'requests' | 'waitingPulls'>
  readonly log: Pick<StreamLog, 'interrupt'>
  readonly stats: BrokerStats
  readonly health: Pick<Health, 'healthy' | 'problem'>
  /** Returns the cause of a failure of the stream log; empty when it answers. */
  readonly backendProblem: () => string
  readonly clock: Pick<Clock, 'nowMs'>
}

const json = 'application/json'
const html = 'text/html; charset=utf-8'

const help = `/backend: whether the stream log answers, or the cause why not
/healthcheck: whether this process takes calls
/livez: whether this process lives
/metrics: all numbers in Prometheus' text format
/stats: all numbers; ?format=json for JSON
/streams: the requests that are known here, as JSON, or as a page for a browser
DELETE /streams/{stream}: interrupts every request of a stream
DELETE /streams/{stream}/requests/{request}: interrupts one, and refuses its pushes for a while
`

/** The pages for operators, and the path to interrupt streams; `/` lists them. */
export function createDebugServer(options: PagesOptions): Server {
  const pages = new Map<string, Page>([
    ...probePages(options),
    ['/', (_, response) => send(response, 200, help)],
    ['/stats', (_, response, query) => sendStats(options.stats, response, query)],
    ['/streams', (request, response) => sendStreams(options, request, response)],
  ])
  const find: FindPage = (path, method) =>
    method === 'DELETE' ? interruption(path, options) : pages.get(path)
  return createPageServer(find, `no such page. The pages are:\n${help}`)
}

/** Metrics and health only, for a port that other hosts can reach. */
export function createMetricsServer(options: PagesOptions): Server {
  const pages = probePages(options)
  return createPageServer(
    path => pages.get(path),
    `no such page. The pages are ${[...pages.keys()].join(', ')}\n`,
  )
}

function probePages({ stats, health, backendProblem }: PagesOptions): ReadonlyMap<string, Page> {
  return new Map<string, Page>([
    ['/metrics', (_, response) => send(response, 200, exposition(stats), expositionType)],
    [
      '/backend',
      (_, response) => {
        const problem = backendProblem()
        if (problem === '') send(response, 200, 'OK')
        else send(response, 503, `${problem}\n`)
      },
    ],
    ['/livez', (_, response) => send(response, 200, 'alive\n')],
    [
      '/healthcheck',
      (_, response) => {
        if (health.healthy()) send(response, 200, 'OK')
        else send(response, 500, `${health.problem()}\n`)
      },
    ],
  ])
}

function sendStats(stats: BrokerStats, response: ServerResponse, query: URLSearchParams): void {
  const entries = statEntries(stats)
  if (query.get('format') === 'json') {
    send(response, 200, `${JSON.stringify(Object.fromEntries(entries))}\n`, json)
  } else {
    send(response, 200, entries.map(([name, value]) => `${name}: ${value}\n`).join(''))
  }
}

function sendStreams(
  { broker, clock }: PagesOptions,
  { headers }: IncomingMessage,
  response: ServerResponse,
): void {
  const forPeople = headers.accept?.includes('text/html') === true
  if (forPeople) send(response, 200, streamsPage(broker, clock.nowMs()), html)
  else send(response, 200, `${JSON.stringify(streamsJson(broker, clock.nowMs()))}\n`, json)
}

/**
 * `/streams/{stream}` and `/streams/{stream}/requests/{request}`, both ids percent-encoded. With a request,
 * the stream may be empty. Without one it may not: an empty id is probably a mistake and would match every
 * stream.
 */
const interruptionPath = /^\/streams\/(?:([^/]+)|([^/]*)\/requests\/([^/]+))$/

function interruption(path: string, { log }: PagesOptions): Page | undefined {
  const match = interruptionPath.exec(path)
  if (match === null) return undefined
  const [, alone, stream = alone ?? '', request = ''] = match
  return (_, response) => {
    const ids = decodeAll([stream, request])
    if (ids === undefined) return send(response, 400, 'the ids are not percent-encoded\n')
    const [streamId = '', requestId = ''] = ids
    log.interrupt(streamId, requestId).then(
      interrupted => send(response, 200, `${JSON.stringify({ interrupted })}\n`, json),
      (error: unknown) => send(response, 503, `${(error as Error).message}\n`),
    )
  }
}

function decodeAll(texts: readonly string[]): readonly string[] | undefined {
  try {
    return texts.map(decodeURIComponent)
  } catch {
    return undefined
  }
}
