/** The requests that one broker knows. Times are in milliseconds. */
export interface StreamsPage {
  /** The number of pulls that match no request yet. */
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
  /**
   * The numbers of messages and bytes that the producer has sent; null if it is not connected to this broker.
   */
  readonly messages?: number | null
  readonly bytes?: number | null
  readonly consumers: readonly ConsumerOnPage[]
}

interface ConsumerOnPage {
  readonly peer: string
  readonly messagesBehind: number
  readonly bytesBehind: number
}

/**
 * At most this many requests of a page are read, with at most `maxConsumers` consumers in total. A broker
 * lists no more requests.
 */
const maxRequests = 1_000
const maxConsumers = 50_000

/** Reads the JSON of a broker's page of requests; undefined for JSON of another form. */
export function readStreamsPage(page: unknown): StreamsPage | undefined {
  const { waitingPulls, total, streams } = readFields(page)
  if (!Array.isArray(streams)) return undefined
  let room = maxConsumers
  return {
    waitingPulls: readNumber(waitingPulls),
    total: Math.max(readNumber(total), streams.length),
    streams: streams.slice(0, maxRequests).map(value => {
      const request = readRequest(value, room)
      room -= request.consumers.length
      return request
    }),
  }
}

function readRequest(value: unknown, maxConsumers: number): RequestOnPage {
  const { key, streamId, requestId, targetObjectId, sourceServiceId, route, ...rest } = readFields(value)
  const { ageMs, ended, end, producer, messages, bytes, consumers } = rest
  const { how, code, message } = readFields(end)
  return {
    ...(typeof key === 'string' && { key }),
    streamId: readText(streamId),
    requestId: readText(requestId),
    targetObjectId: readText(targetObjectId),
    sourceServiceId: readText(sourceServiceId),
    route: readText(route),
    ageMs: readNumber(ageMs),
    ended: ended === true,
    end:
      typeof how === 'string'
        ? { how, ...(typeof code === 'string' && { code, message: readText(message) }) }
        : null,
    producer: typeof producer === 'string' ? producer : null,
    messages: isCount(messages) ? messages : null,
    bytes: isCount(bytes) ? bytes : null,
    consumers: Array.isArray(consumers) ? consumers.slice(0, maxConsumers).map(readConsumer) : [],
  }
}

function readConsumer(value: unknown): ConsumerOnPage {
  const { peer, messagesBehind, bytesBehind } = readFields(value)
  return {
    peer: readText(peer),
    messagesBehind: readNumber(messagesBehind),
    bytesBehind: readNumber(bytesBehind),
  }
}

const isCount = (value: unknown): value is number => isNumber(value) && value >= 0
const readNumber = (value: unknown) => (isCount(value) ? value : 0)

const readFields = (value: unknown) =>
  (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, unknown>>

const readText = (value: unknown) => (typeof value === 'string' ? value : '')

/** Infinite numbers are not accepted: JSON can have numbers such as 1e999, which are read as Infinity. */
const isNumber = (value: unknown): value is number => Number.isFinite(value)

/** The last messages of a request, decimated by the broker. */
export interface PreviewPage {
  readonly key: string
  readonly streamId: string
  readonly requestId: string
  readonly targetObjectId: string
  readonly ended: boolean
  /** Null if the broker does not have messages of the request any more. */
  readonly preview: Preview | null
}

interface Preview {
  readonly seconds: { readonly from: number; readonly to: number } | null
  readonly messages: number
  readonly audio: AudioPreview | null
  readonly blendShapes: readonly { readonly name: string; readonly values: readonly number[] }[]
  readonly times: readonly number[]
}

interface AudioPreview {
  readonly samplesPerSecond: number
  readonly channelCount: number
  /** The lowest and the highest sample of each part of the audio; null for a part without samples. */
  readonly envelope: readonly (readonly number[] | null)[]
}

const maxParts = 400
const maxFrames = 200
const maxCurves = 16
const maxNameChars = 64

/**
 * Reads the JSON of a broker's preview of the request with this key; undefined for JSON of another form.
 * Unknown fields are left out, and lists that are too long are cut.
 */
export function readPreview(value: unknown, key: string): PreviewPage | undefined {
  const { key: found, streamId, requestId, targetObjectId, ended, preview } = readFields(value)
  if (found !== key || typeof preview !== 'object') return undefined
  return {
    key,
    streamId: readText(streamId),
    requestId: readText(requestId),
    targetObjectId: readText(targetObjectId),
    ended: ended === true,
    preview: preview === null ? null : readMessagePreview(readFields(preview)),
  }
}

type Fields = Readonly<Record<string, unknown>>

function readMessagePreview({ seconds, messages, audio, blendShapes, times }: Fields): Preview {
  const { from, to } = readFields(seconds)
  return {
    seconds: isNumber(from) && isNumber(to) ? { from, to } : null,
    messages: readCount(messages),
    audio: audio === null || audio === undefined ? null : readAudio(readFields(audio)),
    blendShapes: readList(blendShapes, maxCurves).map(curve => {
      const { name, values } = readFields(curve)
      return { name: readText(name).slice(0, maxNameChars), values: readNumbers(values) }
    }),
    times: readNumbers(times),
  }
}

function readAudio({ samplesPerSecond, channelCount, envelope }: Fields): AudioPreview {
  return {
    samplesPerSecond: readCount(samplesPerSecond),
    channelCount: readCount(channelCount),
    envelope: readList(envelope, maxParts).map(part => {
      const [least, most] = readList(part, 2)
      return isNumber(least) && isNumber(most) ? [least, most] : null
    }),
  }
}

const readCount = (value: unknown) => (isNumber(value) && value > 0 ? Math.floor(value) : 0)
const readList = (value: unknown, most: number): readonly unknown[] =>
  Array.isArray(value) ? value.slice(0, most) : []
const readNumbers = (value: unknown) =>
  readList(value, maxFrames).map(number => (isNumber(number) ? number : 0))
