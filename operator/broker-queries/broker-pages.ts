import type { RequestOptions } from 'node:http'
import { isObject } from '@tollway/chassis/is-object.ts'
import { parseJson } from '@tollway/chassis/json.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { request } from '@tollway/chassis/net/node-http.ts'
import { readStreamsPage, type StreamsPage } from './read-pages.ts'
import type { BrokerResult } from './stream-rows.ts'

/** The debug server or the admin API of a broker. */
export interface BrokerAddress {
  /** The base address. A path in it, such as the path of a proxy, precedes the paths of the API. */
  readonly url: URL
  /** The bearer token of the admin API. */
  readonly token?: string
  /** The trusted authorities for https, in PEM, which replace the default ones. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

const askMs = 5_000
/**
 * The maximum length of an answer. A page with 1,000 requests and 1,000 consumers in total has less than 1
 * MiB.
 */
const maxAnswerBytes = 64 * 1024 * 1024

/** Reads the requests that a broker knows. Rejects with an error that names the address and the cause. */
async function readStreams(address: BrokerAddress): Promise<StreamsPage> {
  const page = readStreamsPage(await askBroker(address, 'GET', '/streams'))
  if (page !== undefined) return page
  throw new Error(`${address.url.origin}: is not the debug server or the admin API of a broker`)
}

/**
 * Interrupts one request of a stream or, if the request id is empty, all running requests of the stream.
 * Resolves with the number of interrupted requests; rejects as `readStreams` does.
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
  if (status !== 200)
    throw new Error(`${address.url.origin}: answers ${status}: ${firstLine(readErrorMessage(body))}`)
  return parseJson(body)
}

interface BrokerAnswer {
  readonly status: number
  readonly body: string
}

/**
 * Sends a request with `node:http`: `fetch` would take an id such as `..` in the path for the parent folder,
 * even percent-encoded.
 */
function callBroker(address: BrokerAddress, method: string, path: string): Promise<BrokerAnswer> {
  const { url } = address
  const fail = (problem: string) => new Error(`${url.origin}: ${problem}`)
  return new Promise((resolve, reject) => {
    const call = chooseRequest(url)(
      { ...toRequestOptions(address), method, path: joinPath(url, path) },
      response => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
          if (text.length > maxAnswerBytes) response.destroy(new Error('the answer is too long'))
        })
        response.on('error', error => reject(fail(describeConnectionError(error))))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
      },
    )
    call.on('error', error => reject(fail(describeConnectionError(error))))
    call.end()
  })
}

const chooseRequest = ({ protocol }: URL) =>
  protocol === 'https:' ? process.getBuiltinModule('node:https').request : request

const joinPath = ({ pathname }: URL, path: string) => `${pathname.replace(/\/$/, '')}${path}`

function toRequestOptions({ url, token, ca, cert, key }: BrokerAddress): RequestOptions {
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

/** Returns the message of an error answer: JSON from the admin API, text from the debug server. */
function readErrorMessage(body: string): string {
  const answer = parseJson(body)
  return isObject(answer) && typeof answer['message'] === 'string' ? answer['message'] : body
}

const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

const firstLine = (text: string) => (text.split('\n', 1)[0] ?? '').slice(0, 200).replace(unprintable, '?')

export function askBrokers(brokers: readonly BrokerAddress[]): Promise<readonly BrokerResult[]> {
  return Promise.all(
    brokers.map(async (broker): Promise<BrokerResult> => {
      try {
        return { address: broker.url.origin, page: await readStreams(broker) }
      } catch (error) {
        return { address: broker.url.origin, problem: (error as Error).message }
      }
    }),
  )
}
