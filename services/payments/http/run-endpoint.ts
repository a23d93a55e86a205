import type { App } from '../domain/merchant/merchant.ts'
import { isRefused, type Refused, refuse } from '../domain/refusals.ts'
import { authenticate } from '../operations/accounts/access.ts'
import { type Outcome, type Payments, perform } from '../operations/operation.ts'
import type { Once, OnceRequest } from '../storage/idempotency/answers.ts'
import { requestFingerprint } from '../storage/idempotency/sealed-answer.ts'
import type { Tx } from '../storage/storage.ts'
import { type Answer, settle } from './answer.ts'
import type {
  AppEndpoint,
  Call,
  Endpoint,
  ParsedCall,
  ProcessorEndpoint,
  SignUpEndpoint,
} from './endpoint.ts'
import { type Body, readForm } from './read-body.ts'

/** A request, before anything of it was checked. */
export interface Request {
  readonly apiKey: string | null
  /** Null when there is none. */
  readonly idempotencyKey: string | null
  readonly params: Readonly<Record<string, string>>
  /** The query without the question mark. */
  readonly query: string
  readonly body: Body
  readonly wantsChanged: boolean
}

/** The reply to a request. */
export interface Reply {
  readonly outcome: Answer | Refused
  /** The time after which a temporary refusal ends. */
  readonly retryAfterMs?: number
  /** The answer was given before, to the first request with the key. */
  readonly replayed?: boolean
}

const idempotencyKeyPattern = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/
/** The length of the idempotency key of a request that has none and calls the processor. */
const ownKeyBytes = 24

/**
 * Authenticates the caller before it validates the request: a caller without a key learns nothing about the
 * request. The Idempotency-Key of a POST is read after that, and belongs to the app.
 */
export async function runEndpoint(payments: Payments, endpoint: Endpoint, request: Request): Promise<Reply> {
  const { idempotencyKey } = request
  const call = prepare(payments, endpoint, request)
  if (endpoint.method === 'POST' && idempotencyKey !== null && !idempotencyKeyPattern.test(idempotencyKey)) {
    return { outcome: refuse('invalid_idempotency_key') }
  }
  switch (endpoint.kind) {
    case 'app':
      return runForApp(payments, endpoint, request, call)
    case 'processor':
      return runWithProcessor(payments, endpoint, request, call)
    case 'sign-up':
      return runSignUp(payments, endpoint, request, call)
  }
}

type Prepared = ParsedCall | Refused

async function runForApp(
  payments: Payments,
  endpoint: AppEndpoint,
  request: Request,
  call: Prepared,
): Promise<Reply> {
  const act = async (tx: Tx, app: App): Outcome<Answer> =>
    isRefused(call) ? call : endpoint.act(tx, { ...call, app })
  const answer = async (tx: Tx) => {
    const app = await authenticate(tx, payments, request.apiKey)
    return isRefused(app) ? app : act(tx, app)
  }
  if (endpoint.method === 'GET') return { outcome: await payments.storage.read(answer) }
  if (endpoint.method !== 'POST' || request.idempotencyKey === null) {
    return { outcome: await perform(payments, answer) }
  }
  const { idempotencyKey } = request
  const identify = async (tx: Tx): Outcome<OnceRequest & { readonly app: App }> => {
    const app = await authenticate(tx, payments, request.apiKey)
    return isRefused(app) ? app : { ...onceOf(endpoint, request, `app:${app.id}`, idempotencyKey), app }
  }
  const once = await payments.idempotency.runOnce(identify, async (tx, { app }) => settle(await act(tx, app)))
  return isRefusedOnce(once) ? { outcome: once } : replyOf(once)
}

/**
 * A request without an idempotency key gets a random one, so that the outcome of a lost commit can be looked
 * up.
 */
async function runWithProcessor(
  payments: Payments,
  endpoint: ProcessorEndpoint,
  request: Request,
  call: Prepared,
): Promise<Reply> {
  const app = await payments.storage.read(tx => authenticate(tx, payments, request.apiKey))
  if (isRefused(app)) return { outcome: app }
  if (isRefused(call)) return { outcome: call }
  const ownKey = () => Buffer.from(payments.randomBytes(ownKeyBytes)).toString('base64url')
  const scope = request.idempotencyKey === null ? `own:${app.id}` : `app:${app.id}`
  const once = onceOf(endpoint, request, scope, request.idempotencyKey ?? ownKey())
  const outcome = await endpoint.act({ ...call, app }, once)
  return isRefusedOnce(outcome) ? { outcome } : replyOf(outcome)
}

/**
 * Runs an endpoint for callers without an account. Any of them may send the same idempotency key, so that an
 * answer with a secret is stored encrypted, and repeated only to a caller who can decrypt it.
 */
async function runSignUp(
  payments: Payments,
  endpoint: SignUpEndpoint,
  request: Request,
  call: Prepared,
): Promise<Reply> {
  const act = async (tx: Tx): Outcome<Answer> => (isRefused(call) ? call : endpoint.act(tx, call))
  if (request.idempotencyKey === null) return { outcome: await perform(payments, act) }
  const once = { ...onceOf(endpoint, request, 'sign-up', request.idempotencyKey), secret: true }
  return replyOf(await payments.idempotency.runOnce(once, async tx => settle(await act(tx))))
}

/** Reads the query and the input. A refusal is for callers who are authenticated. */
function prepare(
  payments: Payments,
  endpoint: Endpoint,
  { params, query, body, wantsChanged }: Request,
): Prepared {
  const fields = readForm(query)
  if ('refused' in fields) return fields.refused
  const { value, encoding } = body
  const call: Call = { payments, params, query: fields.value, body: value, encoding, wantsChanged }
  const input = endpoint.parse?.(call) ?? {}
  return isRefused(input) ? input : { ...call, input }
}

function onceOf({ method, path }: Endpoint, request: Request, scope: string, key: string): OnceRequest {
  const { params, query, body } = request
  const fingerprintOf = (text: string) =>
    requestFingerprint(key, [method, path, JSON.stringify(params), query, body.encoding, text])
  const fingerprint = fingerprintOf(textOf(body))
  const earlierFingerprint = fingerprintOf(body.text)
  return { scope, key, fingerprint, ...(earlierFingerprint !== fingerprint && { earlierFingerprint }) }
}

/** Returns a text that is equal for bodies of equal content: spaces and lines of JSON have no meaning. */
function textOf({ encoding, value, text }: Body): string {
  return encoding === 'json' && value !== undefined ? JSON.stringify(value) : text
}

function isRefusedOnce(outcome: Once | Refused): outcome is Refused {
  return isRefused(outcome)
}

function replyOf(once: Once): Reply {
  switch (once.kind) {
    case 'answered':
      return { outcome: once.answer, replayed: once.replayed }
    case 'key-reused':
      return { outcome: refuse('idempotency_mismatch') }
    case 'in-progress':
      return { outcome: refuse('idempotency_in_progress'), retryAfterMs: once.retryAfterMs }
    case 'weak-key':
      return { outcome: refuse('weak_idempotency_key') }
  }
}
