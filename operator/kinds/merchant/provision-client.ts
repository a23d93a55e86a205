import type { IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isObject } from '@tollway/chassis/is-object.ts'
import { Agent as HttpAgent, request as requestHttp } from '@tollway/chassis/net/node-http.ts'
import { readBoundedBody } from '@tollway/chassis/net/read-bounded-body.ts'
import {
  ProvisionError,
  type Provisioned,
  type Provisioner,
  type ProvisionRejection,
  type ProvisionRequest,
} from './provisioner.ts'

export interface ProvisionClientOptions {
  /** `http://127.0.0.1:8091`, `https://tollway-payments-provision.tollway.svc:8091`. */
  readonly url: URL
  /** Called before each request. Returns the bearer token (RFC 6750). */
  readonly token?: () => string
  /** Called before each request, so that renewed certificates are used at once. */
  readonly tls?: () => ProvisionTls
  readonly limits?: Partial<ProvisionClientLimits>
}

/** The certificates and the key, in PEM. */
export interface ProvisionTls {
  readonly ca: string
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
  /** The name that the server's certificate must have, at any address. */
  readonly serverName: string
}

export interface ProvisionClientLimits {
  /** The time limit of a request. */
  readonly timeoutMs: number
  readonly maxConnections: number
  readonly maxAnswerBytes: number
}

const defaultLimits: ProvisionClientLimits = {
  timeoutMs: 10_000,
  maxConnections: 8,
  maxAnswerBytes: 64 * 1024,
}

/** Idle connections are closed after this time, before the server closes them (after 65 s). */
const idleConnectionMs = 30_000

interface Answer {
  readonly status: number
  /** The parsed body; undefined without a body, and for a body that is not JSON. */
  readonly body: unknown
}

/** Returns the provisioner at an address. No error contains a key or a token. */
export function createProvisionClient(
  options: ProvisionClientOptions,
): Provisioner & { /** Ends its connections. */ end(): void } {
  const { url, token, tls } = options
  const limits = { ...defaultLimits, ...options.limits }
  const isSecure = url.protocol === 'https:'
  const [Agent, request] = isSecure ? [HttpsAgent, requestHttps] : [HttpAgent, requestHttp]
  const agent = new Agent({
    keepAlive: true,
    maxSockets: limits.maxConnections,
    timeout: idleConnectionMs,
  })

  async function send(method: 'PUT' | 'DELETE', uid: string, body: unknown, signal: AbortSignal) {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const text = body === undefined ? undefined : JSON.stringify(body)
    const { ca, identity, serverName } = tls?.() ?? {}
    const sent = request({
      ...(isSecure && { ca, ...identity, servername: serverName }),
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port,
      method,
      path: `/provision/merchants/${encodeURIComponent(uid)}`,
      headers: {
        accept: 'application/json',
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token()}` }),
      },
      agent,
      signal: AbortSignal.any([signal, AbortSignal.timeout(limits.timeoutMs)]),
    })
    sent.on('error', reject)
    sent.on('response', resolve)
    sent.end(text)
    const response = await promise
    return { status: response.statusCode ?? 0, body: await readJson(response, limits.maxAnswerBytes) }
  }

  async function ask(
    method: 'PUT' | 'DELETE',
    uid: string,
    body: unknown,
    signal: AbortSignal,
  ): Promise<Answer> {
    try {
      return await send(method, uid, body, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ProvisionError) throw error
      const { code, message } = error as NodeJS.ErrnoException
      throw new ProvisionError(`the payments service at ${url.origin} does not answer: ${message || code}`)
    }
  }

  return {
    async provision(uid, asked, signal) {
      const answer = await ask('PUT', uid, toBody(asked), signal)
      return toProvisioned(answer) ?? toRejection(answer) ?? unexpected(answer)
    },
    async close(uid, signal) {
      const answer = await ask('DELETE', uid, undefined, signal)
      if (answer.status !== 204 && answer.status !== 404) unexpected(answer)
    },
    end: () => agent.destroy(),
  }
}

function toBody({ profile, appName, adopt, ...rest }: ProvisionRequest) {
  return { merchant: profile, app: { name: appName }, ...rest, ...(adopt && { adopt }) }
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
const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {})

function toProvisioned({ status, body }: Answer): Provisioned | undefined {
  const { merchantId, publicKey, appId } = fieldsOf(body)
  const isRight = [merchantId, publicKey, appId].every(id => typeof id === 'string' && id !== '')
  if (status !== 200 || !isRight) return undefined
  return { merchantId: `${merchantId}`, publicKey: `${publicKey}`, appId: `${appId}` }
}

/** Returns the rejections that a change of the resource, of the key or of the merchant can resolve. */
function toRejection({ status, body }: Answer): ProvisionRejection | undefined {
  const { code } = fieldsOf(body)
  const message = messageOf(body)
  if (status === 400) {
    const fields = Array.isArray(body) ? body.map(fieldsOf) : []
    const problems = fields.map(({ field, message }) => ({ path: toPath(`${field}`), message: `${message}` }))
    const isFixed = fields.length > 0 && fields.every(({ code }) => code === 'immutable')
    return { rejected: { why: isFixed ? 'immutable' : 'invalid', problems, message } }
  }
  if (status !== 409) return undefined
  if (code === 'merchant_closed') return { rejected: { why: 'closed', problems: [], message } }
  return code === 'conflict' ? { rejected: { why: 'key', problems: [], message } } : undefined
}

function messageOf(body: unknown): string {
  const { message } = fieldsOf(body)
  return typeof message === 'string' ? message : 'some fields are not accepted'
}

/** `merchant.company.country` of a request is `spec.company.country` of the resource. */
function toPath(field: string): string {
  const inSpec = field.replace(/^merchant\./, '')
  return `spec.${inSpec.replace(/\.(\d+)(?=\.|$)/g, '[$1]').replace(/\.secrets(\[\d+\])?$/, '.secretRef')}`
}

function unexpected({ status, body }: Answer): never {
  const { code } = fieldsOf(body)
  const said = typeof code === 'string' ? `${status} ${code}: ${messageOf(body)}` : `${status}`
  throw new ProvisionError(`the payments service answers ${said}`)
}
