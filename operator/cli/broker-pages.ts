import { request } from '@tollway/chassis/node-http.ts'
import { printable } from './render.ts'

/** `/streams` of a broker's debug server. Times are milliseconds. */
export interface StreamsPage {
  /** Pulls for which there is no request yet. */
  readonly waitingPulls: number
  /** How many requests the broker knows; `streams` may have fewer of them. */
  readonly total: number
  readonly streams: readonly RequestOnPage[]
}

export interface RequestOnPage {
  /** The same wherever the request is seen, and of no other one; not every broker tells it. */
  readonly key?: string
  readonly streamId: string
  readonly requestId: string
  readonly targetObjectId: string
  readonly sourceServiceId: string
  /** Empty where no route matches. */
  readonly route: string
  readonly ageMs: number
  readonly ended: boolean
  /** Where the producer is; null when it is gone, or connected to another broker. */
  readonly producer: string | null
  /** What its producer has sent to this broker so far; null when it is not connected to it. */
  readonly messages?: number | null
  readonly bytes?: number | null
  readonly consumers: readonly {
    readonly peer: string
    readonly messagesBehind: number
    readonly bytesBehind: number
  }[]
}

const askMs = 5_000
/** A page of a thousand requests with a thousand consumers together has less than 1 MiB. */
const maxAnswerBytes = 64 * 1024 * 1024

/**
 * What a broker knows. Rejects with an error that says what is wrong at this address.
 *
 * @param address of the debug server; a path in it is kept, as that of a proxy
 */
export async function readStreams(address: URL): Promise<StreamsPage> {
  const page = await askBroker(address, 'GET', '/streams')
  if (isStreamsPage(page)) return page
  throw new Error(`${address.origin}: is not the debug server of a broker`)
}

function isStreamsPage(page: unknown): page is StreamsPage {
  return typeof page === 'object' && page !== null && 'streams' in page && Array.isArray(page.streams)
}

/**
 * Ends a request, or every running one of the stream when the request id is empty. Answers how many were
 * ended; rejects as `readStreams` does.
 */
export async function interrupt(address: URL, streamId: string, requestId: string): Promise<number> {
  const stream = `/streams/${encodeURIComponent(streamId)}`
  const path = requestId === '' ? stream : `${stream}/requests/${encodeURIComponent(requestId)}`
  const answer = await askBroker(address, 'DELETE', path)
  const { interrupted } = (answer ?? {}) as { readonly interrupted?: unknown }
  if (typeof interrupted === 'number') return interrupted
  throw new Error(`${address.origin}: is not the debug server of a broker`)
}

/** Not `fetch`, which takes an id such as `..` for a step up in the path, percent-encoded or not. */
function askBroker(address: URL, method: string, path: string): Promise<unknown> {
  const fail = (problem: string) => new Error(`${address.origin}: ${problem}`)
  return new Promise((resolve, reject) => {
    const call = request(
      {
        host: address.hostname.replace(/^\[(.*)\]$/, '$1'),
        port: address.port,
        path: `${address.pathname.replace(/\/$/, '')}${path}`,
        method,
        headers: { accept: 'application/json' },
        signal: AbortSignal.timeout(askMs),
      },
      response => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
          if (text.length > maxAnswerBytes) response.destroy(new Error('the answer is too long'))
        })
        response.on('error', error => reject(fail(problemOf(error))))
        response.on('end', () => {
          if (response.statusCode !== 200) reject(fail(`answers ${response.statusCode}: ${firstLine(text)}`))
          else resolve(parse(text))
        })
      },
    )
    call.on('error', error => reject(fail(problemOf(error))))
    call.end()
  })
}

function problemOf({ name, message, ...error }: NodeJS.ErrnoException): string {
  if (name === 'AbortError' || name === 'TimeoutError') return `does not answer within ${askMs / 1000} s`
  return `cannot be asked: ${error.code ?? message}`
}

const firstLine = (text: string) => printable((text.split('\n', 1)[0] ?? '').slice(0, 200))

/** undefined for what is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
