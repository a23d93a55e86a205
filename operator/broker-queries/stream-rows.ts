import type { RequestOnPage, StreamsPage } from './read-pages.ts'

export interface StreamsPoll {
  /** The time of the query, in milliseconds of a monotonic clock. */
  readonly atMs: number
  readonly brokers: readonly BrokerResult[]
}

/** The answer of one broker, or the reason why it did not answer. */
export type BrokerResult =
  | { readonly address: string; readonly page: StreamsPage }
  | { readonly address: string; readonly problem: string }

/** One request, merged from the pages of all brokers. */
export interface StreamRow {
  readonly key: string
  readonly streamId: string
  readonly requestId: string
  readonly targetObjectId: string
  readonly sourceServiceId: string
  /** The route: `namespace/name`, or `default` if none matches. */
  readonly route: string
  readonly state: 'running' | 'ended'
  /**
   * How the request ended: `completed`, or another end with its cause. Empty while the request is running, or
   * if no broker reports how it ended.
   */
  readonly end: string
  readonly ageMs: number
  /** The address of the producer at each broker to which it is connected: normally one. */
  readonly producers: readonly string[]
  readonly consumers: readonly ConsumerOfRow[]
  /** The messages and bytes that the slowest consumer has not read yet. */
  readonly messagesBehind: number
  readonly bytesBehind: number
  /** The numbers of messages and bytes that the producer has sent; undefined if no broker knows them. */
  readonly messages: number | undefined
  readonly bytes: number | undefined
}

interface ConsumerOfRow {
  readonly broker: string
  readonly peer: string
  readonly messagesBehind: number
  readonly bytesBehind: number
}

/** Returns one row for each request, merged from all brokers; the oldest first. */
export function mergeRows({ brokers }: Pick<StreamsPoll, 'brokers'>): readonly StreamRow[] {
  const requests = brokers.flatMap(result =>
    'page' in result ? result.page.streams.map(request => ({ broker: result.address, request })) : [],
  )
  const byKey = Map.groupBy(requests, ({ request }) => requestKey(request))
  const rows = Array.from(byKey, ([key, requestsOfBrokers]) => mergeRow(key, requestsOfBrokers)).filter(
    row => row !== undefined,
  )
  return rows.sort((a, b) => b.ageMs - a.ageMs)
}

/**
 * Returns what identifies a request on all brokers: its key, or its three ids, which only one producer uses
 * at a time.
 */
const requestKey = ({ key, streamId, requestId, targetObjectId }: RequestOnPage) =>
  key ?? JSON.stringify([streamId, requestId, targetObjectId])

interface BrokerRequest {
  readonly broker: string
  readonly request: RequestOnPage
}

function mergeRow(key: string, requestsOfBrokers: readonly BrokerRequest[]): StreamRow | undefined {
  const [first] = requestsOfBrokers
  if (first === undefined) return undefined
  const { streamId, requestId, targetObjectId, sourceServiceId, route } = first.request
  const requests = requestsOfBrokers.map(({ request }) => request)
  const consumers = requestsOfBrokers.flatMap(({ broker, request }) =>
    request.consumers.map(consumer => ({ broker, ...consumer })),
  )
  const greatest = (numbers: readonly number[]) => numbers.reduce((most, one) => Math.max(most, one), 0)
  return {
    key,
    streamId,
    requestId,
    targetObjectId,
    sourceServiceId,
    route: route || 'default',
    // The request has ended if any broker says so: others may not know it yet.
    state: requests.some(({ ended }) => ended) ? 'ended' : 'running',
    end: describeEnd(requests.find(({ end }) => end)?.end),
    ageMs: greatest(requests.map(({ ageMs }) => ageMs)),
    producers: requests.flatMap(({ producer }) => producer ?? []),
    consumers,
    messagesBehind: greatest(consumers.map(({ messagesBehind }) => messagesBehind)),
    bytesBehind: greatest(consumers.map(({ bytesBehind }) => bytesBehind)),
    messages: maxKnown(requests.map(({ messages }) => messages)),
    bytes: maxKnown(requests.map(({ bytes }) => bytes)),
  }
}

/**
 * Describes an end: `completed`, `interrupted: INFO interrupted` or `lost: ERROR the producer is gone: …`.
 */
function describeEnd(end: RequestOnPage['end']): string {
  if (end === undefined || end === null) return ''
  return end.code === undefined ? end.how : `${end.how}: ${end.code} ${end.message ?? ''}`
}

/**
 * Returns the largest known number. If a producer has moved to another broker, the count there includes what
 * it sent before.
 */
function maxKnown(numbers: readonly (number | null | undefined)[]): number | undefined {
  const known = numbers.filter(number => typeof number === 'number')
  return known.length === 0 ? undefined : Math.max(...known)
}

/** The rates per second between two polls; undefined at the first poll, and if a poll has no counts. */
interface RowRate {
  readonly messages: number | undefined
  readonly bytes: number | undefined
}

export interface RatedRow extends StreamRow {
  readonly perSecond: RowRate
}

export function addRates(before: StreamsPoll | undefined, now: StreamsPoll): readonly RatedRow[] {
  const earlier = new Map(before === undefined ? [] : mergeRows(before).map(row => [row.key, row]))
  const seconds = before === undefined ? 0 : (now.atMs - before.atMs) / 1000
  const rate = (from: number | undefined, to: number | undefined) =>
    from === undefined || to === undefined || seconds <= 0 ? undefined : Math.max(0, to - from) / seconds
  return mergeRows(now).map(row => {
    const { messages, bytes } = earlier.get(row.key) ?? {}
    return { ...row, perSecond: { messages: rate(messages, row.messages), bytes: rate(bytes, row.bytes) } }
  })
}

/**
 * Returns a line for each request that has changed between two polls; without an earlier poll, a line for
 * each running request.
 */
export function describeChanges(
  before: readonly StreamRow[] | undefined,
  now: readonly StreamRow[],
): readonly string[] {
  const earlier = new Map(before?.map(row => [row.key, row]))
  const lines: string[] = []
  for (const row of now) {
    const known = earlier.get(row.key)
    earlier.delete(row.key)
    const changes =
      known === undefined ? describeNew(row, before === undefined) : describeDifferences(known, row)
    if (changes.length > 0) lines.push(`${describeRequest(row)}: ${changes.join(', ')}`)
  }
  for (const row of earlier.values()) if (row.state === 'running') lines.push(`${describeRequest(row)}: gone`)
  return lines
}

const describeRequest = ({ streamId, requestId, targetObjectId }: StreamRow) =>
  `stream ${JSON.stringify(streamId)} request ${JSON.stringify(requestId)} object ${JSON.stringify(targetObjectId)}`

/** Describes a request that was not in the poll before. At the first poll, ended requests are left out. */
function describeNew(row: StreamRow, isFirstPoll: boolean): readonly string[] {
  const { state, route, producers, consumers } = row
  if (state === 'ended') return isFirstPoll ? [] : [describeEnding(row), `route ${route}`]
  return ['running', `route ${route}`, `producers ${producers.length}`, `consumers ${consumers.length}`]
}

const describeEnding = ({ end }: StreamRow) => (end === '' ? 'ended' : `ended ${end}`)

function describeDifferences(before: StreamRow, now: StreamRow): readonly string[] {
  const changes: string[] = []
  const compare = (what: string, from: number | string, to: number | string) => {
    if (from !== to) changes.push(`${what} ${from} -> ${to}`)
  }
  if (now.state !== before.state) changes.push(now.state === 'ended' ? describeEnding(now) : now.state)
  compare('route', before.route, now.route)
  compare('producers', before.producers.length, now.producers.length)
  compare('consumers', before.consumers.length, now.consumers.length)
  return changes
}
