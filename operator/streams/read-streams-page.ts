import { fieldsOf, isNumber, textOf } from './read-json.ts'

/** The requests that one broker knows. Times are in milliseconds. */
export interface StreamsPage {
  /** The pulls without a matching request. */
  readonly waitingPulls: number
  /** The number of requests at the broker; `streams` may have fewer of them. */
  readonly total: number
  readonly streams: readonly RequestOnPage[]
}

export interface RequestOnPage {
  /** Identifies the request on every broker. Earlier brokers do not send it. */
  readonly key?: string
  readonly streamId: string
  readonly requestId: string
  readonly targetObjectId: string
  readonly sourceServiceId: string
  /** The route; empty if none matches. */
  readonly route: string
  readonly ageMs: number
  readonly ended: boolean
  /** The end of the request; null while it is running. Earlier brokers do not send it. */
  readonly end?: { readonly how: string; readonly code?: string; readonly message?: string } | null
  /** The address of the producer; null if it has disconnected, or is connected to another broker. */
  readonly producer: string | null
  /** The counts that its producer has sent to this broker; null if it is not connected to it. */
  readonly messages?: number | null
  readonly bytes?: number | null
  readonly consumers: readonly ConsumerOnPage[]
}

interface ConsumerOnPage {
  readonly peer: string
  readonly messagesBehind: number
  readonly bytesBehind: number
}

/** The most requests of a page, and the most consumers of all of them. A broker lists no more requests. */
const maxRequests = 1_000
const maxConsumers = 50_000

/** Reads the JSON of a broker's page of requests; undefined for JSON of another form. */
export function readStreamsPage(page: unknown): StreamsPage | undefined {
  const { waitingPulls, total, streams } = fieldsOf(page)
  if (!Array.isArray(streams)) return undefined
  let room = maxConsumers
  return {
    waitingPulls: numberOf(waitingPulls),
    total: Math.max(numberOf(total), streams.length),
    streams: streams.slice(0, maxRequests).map(value => {
      const request = readRequest(value, room)
      room -= request.consumers.length
      return request
    }),
  }
}

function readRequest(value: unknown, maxConsumers: number): RequestOnPage {
  const { key, streamId, requestId, targetObjectId, sourceServiceId, route, ...rest } = fieldsOf(value)
  const { ageMs, ended, end, producer, messages, bytes, consumers } = rest
  const { how, code, message } = fieldsOf(end)
  return {
    ...(typeof key === 'string' && { key }),
    streamId: textOf(streamId),
    requestId: textOf(requestId),
    targetObjectId: textOf(targetObjectId),
    sourceServiceId: textOf(sourceServiceId),
    route: textOf(route),
    ageMs: numberOf(ageMs),
    ended: ended === true,
    end:
      typeof how === 'string'
        ? { how, ...(typeof code === 'string' && { code, message: textOf(message) }) }
        : null,
    producer: typeof producer === 'string' ? producer : null,
    messages: isCount(messages) ? messages : null,
    bytes: isCount(bytes) ? bytes : null,
    consumers: Array.isArray(consumers) ? consumers.slice(0, maxConsumers).map(readConsumer) : [],
  }
}

function readConsumer(value: unknown): ConsumerOnPage {
  const { peer, messagesBehind, bytesBehind } = fieldsOf(value)
  return {
    peer: textOf(peer),
    messagesBehind: numberOf(messagesBehind),
    bytesBehind: numberOf(bytesBehind),
  }
}

const isCount = (value: unknown): value is number => isNumber(value) && value >= 0
const numberOf = (value: unknown) => (isCount(value) ? value : 0)
