import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { findExponent, type Money } from '../../domain/money/money.ts'
import { isoDate } from '../../domain/present.ts'
import { mapResult, type Result, reject } from '../../domain/rejections.ts'
import { parseBooks, parseProvision, parseUid } from '../../operations/accounts/provision-input.ts'
import { closeProvisionedMerchant, provisionMerchant } from '../../operations/accounts/provision-merchant.ts'
import type { Payments } from '../../operations/operation.ts'
import { type BooksReport, type LastVerification, readBooks } from '../../operations/read-books.ts'
import { transact } from '../../storage/storage.ts'
import { type HttpAnswer, jsonAnswer, noContent } from '../answer.ts'
import { RejectedError } from '../failure.ts'
import { hasBearerToken } from '../request-headers.ts'
import {
  createJsonServer,
  type JsonServer,
  type JsonServerOptions,
  readParsedBody,
  sendAnswer,
  sendRejection,
} from './server.ts'

interface ProvisionServerOptions extends JsonServerOptions {
  readonly payments: Payments
  /** Returns the bearer token for each request. Null if callers need only a client certificate. */
  readonly token: (() => string) | null
  /** The DNS name that the client certificate of a caller must have; empty for any. */
  readonly clientName?: string
}

const path = '/provision/merchants/:uid'

/** Creates the server for the Kubernetes operator. It requires a token, a client certificate or both. */
export function createProvisionServer(options: ProvisionServerOptions): JsonServer {
  const { payments, token, clientName = '' } = options
  const server = createJsonServer(options)
  const { app } = server
  app.addHook('onRequest', async request => {
    if (token !== null && !hasBearerToken(request.headers.authorization, token())) {
      throw new RejectedError(reject('unauthorized', 'The token is missing or not valid.'))
    }
    if (clientName !== '' && !hasDnsName(request.raw.socket, clientName)) {
      throw new RejectedError(reject('forbidden', 'The client certificate has no permission to provision.'))
    }
  })
  app.put<{ Params: { uid: string } }>(path, async (request, reply) => {
    const outcome = await provision(payments, request.params.uid, readParsedBody(request).value)
    return outcome.ok ? sendAnswer(reply, outcome.value) : sendRejection(reply, outcome)
  })
  app.delete<{ Params: { uid: string } }>(path, async (request, reply) => {
    const outcome = await close(payments, request.params.uid)
    return outcome.ok ? sendAnswer(reply, outcome.value) : sendRejection(reply, outcome)
  })
  app.post('/provision/books', async (request, reply) => {
    const input = parseBooks(readParsedBody(request).value)
    if (!input.ok) return sendRejection(reply, input)
    return sendAnswer(
      reply,
      jsonAnswer(200, presentBooks(await readBooks(payments.storage, input.value.uids))),
    )
  })
  app.setNotFoundHandler((_, reply) => sendRejection(reply, reject('not_found')))
  return server
}

async function provision(payments: Payments, text: string, body: unknown): Promise<Result<HttpAnswer>> {
  const uid = parseUid(text)
  if (!uid.ok) return uid
  const input = parseProvision(body, payments.fundingCurrencies)
  if (!input.ok) return input
  return mapResult(
    await transact(payments.storage, tx =>
      provisionMerchant(tx, payments, { uid: uid.value, input: input.value }),
    ),
    outcome => jsonAnswer(200, { ...outcome }),
  )
}

async function close(payments: Payments, text: string): Promise<Result<HttpAnswer>> {
  const uid = parseUid(text)
  if (!uid.ok) return uid
  return mapResult(
    await transact(payments.storage, tx => closeProvisionedMerchant(tx, payments, uid.value)),
    () => noContent,
  )
}

/** Reports whether the client certificate, which TLS has verified, has this DNS name. */
function hasDnsName(socket: Socket, name: string): boolean {
  const certificate = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
  return certificate?.checkHost(name, { subject: 'never' }) !== undefined
}

/**
 * Amounts are text, because the sum of many payments can exceed the exact integers of JSON. `exponent` is the
 * number of decimal places.
 */
function presentBooks({ merchants, verification }: BooksReport): JsonObject {
  const shown = [...merchants].map(([uid, { merchantId, available, pending }]) => {
    return [uid, { merchantId, available: presentSum(available), pending: pending.map(presentSum) }] as const
  })
  return {
    merchants: Object.fromEntries(shown),
    verification: verification === undefined ? null : presentVerification(verification),
  }
}

function presentSum({ currency, amount }: Money): JsonObject {
  return { currency, amount: String(amount), exponent: findExponent(currency) }
}

function presentVerification({ records, findings, shown, ...times }: LastVerification): JsonObject {
  return {
    began: isoDate(times.beganMs),
    ended: isoDate(times.endedMs),
    records,
    findings,
    shown: shown.map(({ uid, merchantId, record, message }) => ({ uid, merchantId, record, message })),
  }
}
