import type { RequestOptions } from 'node:http'
import { request } from '@tollway/chassis/net/node-http.ts'

/** The page `/streams` of a broker's debug server. Times are in milliseconds. */
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
  readonly consumers: readonly {
    readonly peer: string
    readonly messagesBehind: number
    readonly bytesBehind: number
  }[]
}

/** The debug server or the admin API of a broker. */
export interface BrokerAddress {
  /** The base address. A path in it, such as that of a proxy, is kept. */
  readonly url: URL
  /** The bearer token of the admin API. */
  readonly token?: string
  /** The trusted authorities for https, in PEM, which replace the default ones. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

const askMs = 5_000
/** A page of a thousand requests with a thousand consumers together has less than 1 MiB. */
const maxAnswerBytes = 64 * 1024 * 1024

/** Reads the requests that a broker knows. Rejects with an error that names the address and the cause. */
export async function readStreams(address: BrokerAddress): Promise<StreamsPage> {
  const page = await askBroker(address, 'GET', '/streams')
  if (isStreamsPage(page)) return page
  throw new Error(`${address.url.origin}: is not the debug server or the admin API of a broker`)
}

/**
 * Reads the preview of a request; undefined if the broker does not know it. Rejects as `readStreams` does.
 */
export async function readPreview(address: BrokerAddress, key: string): Promise<object | undefined> {
  const path = `/streams/preview?key=${encodeURIComponent(key)}`
  const { status, body } = await callBroker(address, 'GET', path)
  if (status === 404) return undefined
  if (status !== 200) throw problemOfAnswer(address, status, body)
  const page = parse(body) as { readonly preview?: unknown } | undefined
  if (typeof page?.preview === 'object') return page
  throw new Error(`${address.url.origin}: answers with no preview`)
}

function isStreamsPage(page: unknown): page is StreamsPage {
  return typeof page === 'object' && page !== null && 'streams' in page && Array.isArray(page.streams)
}

/**
 * Interrupts a request, or every running one of the stream if the request id is empty. Resolves with the
 * number of requests that it ended; rejects as `readStreams` does.
 */
export async function interrupt(
  address: BrokerAddress,
  streamId: string,
  requestId: string,
): Promise<number> {
  const stream = `/streams/${encodeURIComponent(streamId)}`
  const path = requestId === '' ? stream : `${stream}/requests/${encodeURIComponent(requestId)}`
  const answer = await askBroker(address, 'DELETE', path)
  const { interrupted } = (answer ?? {}) as { readonly interrupted?: unknown }
  if (typeof interrupted === 'number') return interrupted
  throw new Error(`${address.url.origin}: is not the debug server or the admin API of a broker`)
}

async function askBroker(address: BrokerAddress, method: string, path: string): Promise<unknown> {
  const { status, body } = await callBroker(address, method, path)
  if (status !== 200) throw problemOfAnswer(address, status, body)
  return parse(body)
}

const problemOfAnswer = ({ url }: BrokerAddress, status: number, body: string) =>
  new Error(`${url.origin}: answers ${status}: ${firstLine(body)}`)

interface BrokerAnswer {
  readonly status: number
  readonly body: string
}

/** Sends a request. `fetch` would resolve an id such as `..` as a step up, percent-encoded or not. */
function callBroker(address: BrokerAddress, method: string, path: string): Promise<BrokerAnswer> {
  const { url } = address
  const fail = (problem: string) => new Error(`${url.origin}: ${problem}`)
  return new Promise((resolve, reject) => {
    const call = requestOf(url)({ ...optionsOf(address), method, path: pathOf(url, path) }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
        if (text.length > maxAnswerBytes) response.destroy(new Error('the answer is too long'))
      })
      response.on('error', error => reject(fail(problemOf(error))))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
    })
    call.on('error', error => reject(fail(problemOf(error))))
    call.end()
  })
}

const requestOf = ({ protocol }: URL) =>
  protocol === 'https:' ? process.getBuiltinModule('node:https').request : request

const pathOf = ({ pathname }: URL, path: string) => `${pathname.replace(/\/$/, '')}${path}`

function optionsOf({ url, token, ca, cert, key }: BrokerAddress): RequestOptions {
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port,
    headers: {
      accept: 'application/json',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    signal: AbortSignal.timeout(askMs),
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  }
}

function problemOf({ name, message, ...error }: NodeJS.ErrnoException): string {
  if (name === 'AbortError' || name === 'TimeoutError') return `does not answer within ${askMs / 1000} s`
  return `cannot be asked: ${error.code ?? message}`
}

const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

const firstLine = (text: string) => (text.split('\n', 1)[0] ?? '').slice(0, 200).replace(unprintable, '?')

/** Returns undefined for text that is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
