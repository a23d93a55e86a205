import type { IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isObject } from '@tollway/chassis/is-object.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { Agent as HttpAgent, request as requestHttp } from '@tollway/chassis/net/node-http.ts'
import { readBoundedBody } from '@tollway/chassis/net/read-bounded-body.ts'
import type {
  BookReader,
  BooksVerification,
  MerchantBalances,
  MerchantBooks,
  MoneyAmount,
} from './merchant-books.ts'
import {
  ProvisionError,
  type Provisioned,
  type Provisioner,
  type ProvisionRejection,
  type ProvisionRequest,
} from './provisioner.ts'

interface ProvisionClientOptions {
  /**
   * The address of the port: `http://127.0.0.1:8091`, `https://tollway-payments-provision.tollway.svc:8091`.
   */
  readonly url: URL
  /** Returns the bearer token (RFC 6750). Called before each request. */
  readonly token?: () => string
  /** Returns the certificates. Called before each request, so that renewed certificates are used at once. */
  readonly tls?: () => ProvisionTls
  readonly limits?: Partial<ProvisionClientLimits>
}

/** The trusted authorities, and the client's certificate and key, in PEM. */
interface ProvisionTls {
  readonly ca: string
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
  /** The name that the server's certificate must have, whatever the address is. */
  readonly serverName: string
}

interface ProvisionClientLimits {
  /** The time limit of one request, if the call does not set one. */
  readonly timeoutMs: number
  readonly maxConnections: number
  readonly maxAnswerBytes: number
}

const defaultLimits: ProvisionClientLimits = {
  timeoutMs: 10_000,
  maxConnections: 8,
  maxAnswerBytes: 64 * 1024,
}

/** Idle connections are closed after this time, because the server closes them after 65 s. */
const idleConnectionMs = 30_000

interface Answer {
  readonly status: number
  /** The parsed body; undefined if there is none or it is not JSON. */
  readonly body: unknown
}

/**
 * The largest answer about books. One answer has up to a hundred merchants with amounts in a few currencies.
 */
const maxBooksBytes = 2 * 1024 * 1024
/**
 * The time limit of a request for books, so that an unavailable service hardly delays a list of merchants.
 */
const booksTimeoutMs = 3_000

interface Call {
  readonly method: 'PUT' | 'DELETE' | 'POST'
  /** The path of the request below `/provision`. */
  readonly path: string
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
  readonly maxAnswerBytes?: number
}

/** Returns a client of the provisioning port. No error contains a key or a token. */
export function createProvisionClient(
  options: ProvisionClientOptions,
): Provisioner & BookReader & { end(): void } {
  const { url, token, tls } = options
  const limits = { ...defaultLimits, ...options.limits }
  const isSecure = url.protocol === 'https:'
  const [Agent, request] = isSecure ? [HttpsAgent, requestHttps] : [HttpAgent, requestHttp]
  const agent = new Agent({
    keepAlive: true,
    maxSockets: limits.maxConnections,
    timeout: idleConnectionMs,
  })

  async function send({ method, path, body, signal, ...own }: Call) {
    const { timeoutMs, maxAnswerBytes } = { ...limits, ...own }
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const text = body === undefined ? undefined : JSON.stringify(body)
    const { ca, identity, serverName } = tls?.() ?? {}
    const sent = request({
      ...(isSecure && { ca, ...identity, servername: serverName }),
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port,
      method,
      path: `/provision${path}`,
      headers: {
        accept: 'application/json',
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token()}` }),
      },
      agent,
      signal: AbortSignal.any([...(signal ? [signal] : []), AbortSignal.timeout(timeoutMs)]),
    })
    sent.on('error', reject)
    sent.on('response', resolve)
    sent.end(text)
    const response = await promise
    return { status: response.statusCode ?? 0, body: await readJson(response, maxAnswerBytes) }
  }

  async function ask(call: Call): Promise<Answer> {
    try {
      return await send(call)
    } catch (error) {
      call.signal?.throwIfAborted()
      if (error instanceof ProvisionError) throw error
      throw new ProvisionError(`payments service at ${url.origin}: ${describeConnectionError(error)}`)
    }
  }

  const ofMerchant = (uid: string) => `/merchants/${encodeURIComponent(uid)}`

  return {
    async check(signal) {
      const answer = await ask({ method: 'POST', path: '/books', body: { uids: [] }, signal })
      // Payments services of earlier versions answer 404, because they have no such path.
      if (answer.status !== 200 && answer.status !== 404) unexpected(answer)
    },
    async provision(uid, asked, signal) {
      const answer = await ask({ method: 'PUT', path: ofMerchant(uid), body: toBody(asked), signal })
      return toProvisioned(answer) ?? toRejection(answer) ?? unexpected(answer)
    },
    async close(uid, signal) {
      const answer = await ask({ method: 'DELETE', path: ofMerchant(uid), signal })
      if (answer.status !== 204 && answer.status !== 404) unexpected(answer)
    },
    async readBooks(uids) {
      const ofBooks = { timeoutMs: booksTimeoutMs, maxAnswerBytes: maxBooksBytes }
      const answer = await ask({ method: 'POST', path: '/books', body: { uids }, ...ofBooks })
      const { status, body } = answer
      if (status === 404) throw new ProvisionError('the payments service has an earlier version')
      return (status === 200 ? toBooks(body) : undefined) ?? unexpected(answer)
    },
    end: () => agent.destroy(),
  }
}

/**
 * Leaves out fields that are not set, because a service of an earlier version rejects fields that it does not
 * know.
 */
function toBody({ profile, appName, adopt, ...rest }: ProvisionRequest) {
  const merchant = Object.fromEntries(Object.entries(profile).filter(([, value]) => value !== null))
  return { merchant, app: { name: appName }, ...rest, ...(adopt && { adopt }) }
}

async function readJson(response: IncomingMessage, maxBytes: number): Promise<unknown> {
  const body = await readBoundedBody(response, maxBytes)
  if (body === undefined) throw new ProvisionError(`the payments service answers more than ${maxBytes} bytes`)
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

type Fields = Readonly<Record<string, unknown>>
const asFields = (value: unknown): Fields => (isObject(value) ? value : {})

function toProvisioned({ status, body }: Answer): Provisioned | undefined {
  const { merchantId, publicKey, appId } = asFields(body)
  const isRight = [merchantId, publicKey, appId].every(id => typeof id === 'string' && id !== '')
  if (status !== 200 || !isRight) return undefined
  return { merchantId: `${merchantId}`, publicKey: `${publicKey}`, appId: `${appId}` }
}

const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function toBooks(body: unknown): MerchantBooks | undefined {
  const { merchants, verification } = asFields(body)
  if (typeof merchants !== 'object' || merchants === null || verification === undefined) return undefined
  const balances = Object.entries(merchants).map(([uid, fields]): [string, MerchantBalances] => {
    const { available, pending } = asFields(fields)
    return [uid, { available: toMoney(available), pending: asList(pending).map(toMoney) }]
  })
  return {
    balances: new Map(balances),
    lastVerify: verification === null ? undefined : toLastVerify(asFields(verification)),
  }
}

function toMoney(value: unknown): MoneyAmount {
  const { currency, amount, exponent } = asFields(value)
  return { currency: `${currency}`, amount: `${amount}`, exponent: Number(exponent) }
}

function toLastVerify({ began, ended, records, findings, shown }: Fields): BooksVerification {
  const counts = Object.entries(asFields(records)).map(([kind, count]) => [kind, Number(count)])
  return {
    beganMs: Date.parse(`${began}`),
    endedMs: Date.parse(`${ended}`),
    records: Object.fromEntries(counts),
    findings: Number(findings),
    shown: asList(shown).map(value => {
      const { uid, record, message } = asFields(value)
      return { uid: typeof uid === 'string' ? uid : undefined, record: `${record}`, message: `${message}` }
    }),
  }
}

/**
 * Returns the rejection in an answer; undefined for an answer that no change of the resource, key or merchant
 * can resolve.
 */
function toRejection({ status, body }: Answer): ProvisionRejection | undefined {
  const { code } = asFields(body)
  const message = readMessage(body)
  if (status === 400) {
    const fields = Array.isArray(body) ? body.map(asFields) : []
    const problems = fields.map(({ field, message }) => ({ path: toPath(`${field}`), message: `${message}` }))
    const isFixed = fields.length > 0 && fields.every(({ code }) => code === 'immutable')
    return { rejected: { why: isFixed ? 'immutable' : 'invalid', problems, message } }
  }
  if (status !== 409) return undefined
  if (code === 'merchant_closed') return { rejected: { why: 'closed', problems: [], message } }
  return code === 'conflict' ? { rejected: { why: 'key', problems: [], message } } : undefined
}

function readMessage(body: unknown): string {
  const { message } = asFields(body)
  return typeof message === 'string' ? message : 'some fields are not accepted'
}

/**
 * Returns the field of the resource for a field of the request: `spec.company.country` for
 * `merchant.company.country`.
 */
function toPath(field: string): string {
  const inSpec = field.replace(/^merchant\./, '')
  return `spec.${inSpec.replace(/\.(\d+)(?=\.|$)/g, '[$1]').replace(/\.secrets(\[\d+\])?$/, '.secretRef')}`
}

function unexpected({ status, body }: Answer): never {
  const { code } = asFields(body)
  const said = typeof code === 'string' ? `${status} ${code}: ${readMessage(body)}` : `${status}`
  throw new ProvisionError(`the payments service answers ${said}`)
}
