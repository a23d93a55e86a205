import { parseForm } from '../domain/input/form.ts'
import type { App } from '../domain/merchant.ts'
import { accept, mapResult, type Result, reject } from '../domain/rejections.ts'
import { authenticate } from '../operations/accounts/access.ts'
import type { Payments } from '../operations/operation.ts'
import type { IdempotentRequest, IdempotentResult } from '../storage/idempotency/answers.ts'
import { requestFingerprint } from '../storage/idempotency/sealed-answer.ts'
import { type Tx, transact } from '../storage/storage.ts'
import type { HttpAnswer } from './answer.ts'
import type {
  AppCall,
  AppEndpoint,
  EndpointCall,
  ParsedCall,
  PaymentsEndpoint,
  ProcessorEndpoint,
  SignUpEndpoint,
} from './endpoint.ts'
import type { Body } from './read-body.ts'

/** A request to an endpoint. Only the body is parsed; nothing else is validated yet. */
export interface EndpointRequest {
  readonly apiKey: string | null
  readonly idempotencyKey: string | null
  readonly params: Readonly<Record<string, string>>
  /** The query without the question mark. */
  readonly query: string
  readonly body: Body
  readonly wantsChanged: boolean
}

export interface EndpointReply {
  readonly outcome: Result<HttpAnswer>
  /** True if the answer is the stored answer to an earlier request with the same Idempotency-Key. */
  readonly replayed?: boolean
}

const idempotencyKeyPattern = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/
/** The random bytes of the key that `runWithProcessor` creates for a request without an Idempotency-Key. */
const ownKeyBytes = 24

/**
 * Parses the input, authenticates the app, and runs the endpoint. Parsing and authentication come before the
 * transaction. A caller without a valid API key is not told the errors of the input. An Idempotency-Key
 * counts only for POST, and each app has its own keys.
 */
export async function runEndpoint(
  payments: Payments,
  endpoint: PaymentsEndpoint,
  request: EndpointRequest,
): Promise<EndpointReply> {
  const { idempotencyKey } = request
  if (endpoint.method === 'POST' && idempotencyKey !== null && !idempotencyKeyPattern.test(idempotencyKey)) {
    return { outcome: reject('invalid_idempotency_key') }
  }
  const call = parse(payments, endpoint, request)
  if (endpoint.kind === 'sign-up') return runSignUp(payments, endpoint, request, call)
  const app = await payments.storage.read(tx => authenticate(tx, payments, request.apiKey))
  if (!app.ok) return { outcome: app }
  const appCall = mapResult(call, parsed => ({ ...parsed, app: app.value }))
  if (endpoint.kind === 'app')
    return runForApp(payments, endpoint, request, { app: app.value, call: appCall })
  return appCall.ok ? runWithProcessor(endpoint, request, appCall.value) : { outcome: appCall }
}

async function runForApp(
  { storage, idempotency }: Payments,
  endpoint: AppEndpoint,
  request: EndpointRequest,
  { app, call }: { readonly app: App; readonly call: Result<AppCall> },
): Promise<EndpointReply> {
  const act = async (tx: Tx) => (call.ok ? endpoint.act(tx, call.value) : call)
  if (endpoint.method === 'POST' && request.idempotencyKey !== null) {
    // Looks for a stored answer first, so that a repeated request gets it even if the input is no longer
    // valid.
    const identified = identify(endpoint, request, `app:${app.id}`, request.idempotencyKey)
    return toReply(await idempotency.runOnce(identified, act))
  }
  if (!call.ok) return { outcome: call }
  return { outcome: endpoint.method === 'GET' ? await storage.read(act) : await transact(storage, act) }
}

/** Without an Idempotency-Key, creates one, so that the outcome of a lost commit can be found. */
async function runWithProcessor(
  endpoint: ProcessorEndpoint,
  request: EndpointRequest,
  call: AppCall,
): Promise<EndpointReply> {
  const { app, payments } = call
  const ownKey = () => Buffer.from(payments.randomBytes(ownKeyBytes)).toString('base64url')
  const scope = request.idempotencyKey === null ? `own:${app.id}` : `app:${app.id}`
  const identified = identify(endpoint, request, scope, request.idempotencyKey ?? ownKey())
  return toReply(await endpoint.act(call, identified))
}

/**
 * Runs an endpoint for callers without an API key. All of them share one scope of idempotency keys. The
 * answer contains a secret, so it is stored encrypted with a key derived from the Idempotency-Key.
 */
async function runSignUp(
  { storage, idempotency }: Payments,
  endpoint: SignUpEndpoint,
  request: EndpointRequest,
  call: Result<ParsedCall>,
): Promise<EndpointReply> {
  const act = async (tx: Tx) => (call.ok ? endpoint.act(tx, call.value) : call)
  if (request.idempotencyKey === null) return { outcome: call.ok ? await transact(storage, act) : call }
  const identified = identify(endpoint, request, 'sign-up', request.idempotencyKey)
  return toReply(await idempotency.runOnce({ ...identified, secret: true }, act))
}

function parse(
  payments: Payments,
  endpoint: PaymentsEndpoint,
  { params, query, body, wantsChanged }: EndpointRequest,
): Result<ParsedCall> {
  const fields = parseForm(query)
  if (!fields.ok) return fields
  const { value, encoding } = body
  const param = (name: string) => params[name] ?? ''
  const call: EndpointCall = { payments, param, query: fields.value, body: value, encoding, wantsChanged }
  return mapResult(endpoint.parse?.(call) ?? accept({}), input => ({ ...call, input }))
}

function identify(
  { method, path }: PaymentsEndpoint,
  { params, query, body }: EndpointRequest,
  scope: string,
  key: string,
): IdempotentRequest {
  const fingerprintWith = (text: string) =>
    requestFingerprint(key, [method, path, JSON.stringify(params), query, body.encoding, text])
  const fingerprint = fingerprintWith(normalise(body))
  const earlierFingerprint = fingerprintWith(body.text)
  return { scope, key, fingerprint, ...(earlierFingerprint !== fingerprint && { earlierFingerprint }) }
}

/** Returns text that is equal for bodies of equal content. JSON is written anew, without white space. */
function normalise({ encoding, value, text }: Body): string {
  return encoding === 'json' && value !== undefined ? JSON.stringify(value) : text
}

function toReply(result: Result<IdempotentResult>): EndpointReply {
  if (!result.ok) return { outcome: result }
  const { value } = result
  switch (value.kind) {
    case 'answered':
      return { outcome: accept(value.answer), replayed: value.replayed }
    case 'key-reused':
      return { outcome: reject('idempotency_mismatch') }
    case 'in-progress':
      return { outcome: reject('idempotency_in_progress', undefined, { retryAfterMs: value.retryAfterMs }) }
    case 'weak-key':
      return { outcome: reject('weak_idempotency_key') }
  }
}
