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

/** Reads the JSON of a broker's page of requests; undefined for JSON of another form. */
export function readStreamsPage(page: unknown): StreamsPage | undefined {
  const { waitingPulls, total, streams } = fieldsOf(page)
  if (!Array.isArray(streams)) return undefined
  return {
    waitingPulls: numberOf(waitingPulls),
    total: Math.max(numberOf(total), streams.length),
    streams: streams.map(readRequest),
  }
}

function readRequest(value: unknown): RequestOnPage {
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
    messages: typeof messages === 'number' ? messages : null,
    bytes: typeof bytes === 'number' ? bytes : null,
    consumers: Array.isArray(consumers) ? consumers.map(readConsumer) : [],
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

const fieldsOf = (value: unknown) =>
  (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, unknown>>
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')
const numberOf = (value: unknown) => (typeof value === 'number' && value >= 0 ? value : 0)
