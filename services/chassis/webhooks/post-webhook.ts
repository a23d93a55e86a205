import { lookup } from 'node:dns/promises'
import type { ClientRequest, RequestOptions } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP, isIPv4 } from 'node:net'
import { describeConnectionError } from '../net/describe-connection-error.ts'
import { request as requestHttp } from '../net/node-http.ts'
import type { AddressPolicy } from './address-policy.ts'
import { checkWebhookUrl, readHost } from './webhook-url.ts'

/** Resolves with the addresses of a host name. Production passes `resolveBySystem`. */
export type ResolveName = (name: string) => Promise<readonly string[]>

export const resolveBySystem: ResolveName = async name => {
  const found = await lookup(name, { all: true })
  return found.map(({ address }) => address)
}

interface PostOptions {
  readonly policy: AddressPolicy
  readonly resolve: ResolveName
  /** The time for DNS, connection, TLS and the answer together. */
  readonly timeoutMs: number
  /** Authorities that tests trust instead of the usual ones. */
  readonly ca?: string
}

interface Post {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The answer without its body: the URL of a merchant may lead to a private page. */
export interface PostAnswer {
  readonly status: number
  /** Null unless Retry-After is a number of seconds. */
  readonly retryAfterSeconds: number | null
}

/**
 * Thrown when the URL is not allowed, the connection failed, or the time is over. The message is safe to show
 * to the merchant.
 */
export class PostError extends Error {
  override readonly name = 'PostError'
}

/** The bytes of an answer after these are not read; the connection is closed. */
const maxAnswerBytes = 16 * 1024
const maxHeaderBytes = 16 * 1024
const userAgent = 'tollway-webhooks/1.0'

/**
 * Posts to a URL that a merchant has chosen. The host name is resolved once, all its addresses are checked,
 * and the connection goes to one of them: a later answer of DNS has no effect. Redirects are not followed, no
 * connection is reused, no proxy is used.
 *
 * @throws PostError when the address is not allowed or the receiver does not answer in time
 */
export async function postWebhook(post: Post, options: PostOptions): Promise<PostAnswer> {
  const { policy, resolve, timeoutMs } = options
  const checked = checkWebhookUrl(post.url, policy)
  if ('problem' in checked) throw new PostError(`the URL ${checked.problem}`)
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(), timeoutMs)
  const { signal } = controller
  try {
    const host = readHost(checked.url)
    const addresses = isIP(host) === 0 ? await resolveName(host, resolve, signal) : [host]
    const rejected = addresses.find(address => !policy.allows(address))
    if (rejected !== undefined)
      throw new PostError(`${host} has the address ${rejected}, which is not public`)
    return await send(checked.url, post, { ...options, addresses, signal })
  } catch (error) {
    throw signal.aborted ? new PostError(`no answer within ${timeoutMs} ms`, { cause: error }) : error
  } finally {
    clearTimeout(timer)
    controller.abort()
  }
}

async function resolveName(
  name: string,
  resolve: ResolveName,
  signal: AbortSignal,
): Promise<readonly string[]> {
  let addresses: readonly string[] = []
  try {
    addresses = await Promise.race([resolve(name), aborted(signal)])
  } catch (cause) {
    throw new PostError(`${name}: ${describeConnectionError(cause)}`, { cause })
  }
  if (addresses.length === 0) throw new PostError(`${name} has no address`)
  return addresses
}

/** Rejects when the signal aborts: for a race with the system's resolver, which cannot be stopped. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

interface Connecting extends PostOptions {
  readonly addresses: readonly string[]
  readonly signal: AbortSignal
}

function send(url: URL, { headers, body }: Post, connecting: Connecting): Promise<PostAnswer> {
  const { addresses, signal, ca } = connecting
  const bytes = Buffer.from(body, 'utf8')
  const options: RequestOptions = {
    method: 'POST',
    agent: false,
    signal,
    lookup: createLookup(addresses),
    maxHeaderSize: maxHeaderBytes,
    headers: { ...headers, 'user-agent': userAgent, 'content-length': bytes.length, connection: 'close' },
  }
  const request =
    url.protocol === 'https:'
      ? requestHttps(url, { ...options, minVersion: 'TLSv1.2', ...(ca === undefined ? {} : { ca }) })
      : requestHttp(url, options)
  const answer = readAnswer(request)
  request.end(bytes)
  return answer
}

/** Answers with the checked addresses, instead of resolving the name again. */
function createLookup(addresses: readonly string[]): NonNullable<RequestOptions['lookup']> {
  const all = addresses.map(address => ({ address, family: isIPv4(address) ? 4 : 6 }))
  return (_, options, callback) => {
    const [first] = all
    if (options.all === true) callback(null, all)
    else callback(null, first?.address ?? '', first?.family ?? 0)
  }
}

/**
 * Resolves when the answer has ended or was cut off. Rejects with a PostError if the connection fails before
 * the head of the answer.
 */
function readAnswer(request: ClientRequest): Promise<PostAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<PostAnswer>()
  let answer: PostAnswer | undefined
  const end = (cause?: NodeJS.ErrnoException) => {
    if (answer !== undefined) resolve(answer)
    else
      reject(
        new PostError(cause ? describeConnectionError(cause) : 'connection closed without an answer', {
          cause,
        }),
      )
  }
  request.on('error', end).on('close', end)
  request.on('response', response => {
    const { statusCode: status = 0, headers } = response
    answer = { status, retryAfterSeconds: readSeconds(headers['retry-after']) }
    let length = 0
    response.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxAnswerBytes) response.destroy()
    })
    response.on('error', end).on('close', end)
  })
  return promise
}

function readSeconds(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) : null
}
