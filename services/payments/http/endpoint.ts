import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import type { Encoding } from '../domain/input/record.ts'
import type { App } from '../domain/merchant.ts'
import type { Result } from '../domain/rejections.ts'
import type { Payments } from '../operations/operation.ts'
import type { IdempotentRequest, IdempotentResult } from '../storage/idempotency/answers.ts'
import type { Tx } from '../storage/storage.ts'
import type { HttpAnswer } from './answer.ts'

/** A request to an endpoint, before the endpoint has validated the input. */
export interface EndpointCall {
  readonly payments: Payments
  /** Returns a parameter of the path, not validated. Operations reject text that is no id as `not_found`. */
  param(name: string): string
  /** The fields of the query, as `parseForm` returns them. */
  readonly query: unknown
  readonly body: unknown
  readonly encoding: Encoding
  /** Whether the answer to a change contains the changed record; otherwise it is 204 without a body. */
  readonly wantsChanged: boolean
}

export interface ParsedCall<Input extends object = object> extends EndpointCall {
  readonly input: Input
}

export interface AppCall<Input extends object = object> extends ParsedCall<Input> {
  readonly app: App
}

interface Documented<Input extends object> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** The path in the notation of OpenAPI: `/merchants/{merchantId}`. */
  readonly path: string
  readonly document: EndpointDocument
  /** Runs before a transaction begins. Only authenticated callers and sign-ups are told its errors. */
  parse?(call: EndpointCall): Result<Input>
}

/**
 * An endpoint for apps, without calls to the processor. A GET runs in `Storage.read`. Other requests run in
 * one transaction, which is rolled back if `act` returns a rejection.
 */
export interface AppEndpoint<Input extends object = object> extends Documented<Input> {
  readonly kind: 'app'
  act(tx: Tx, call: AppCall<Input>): Promise<Result<HttpAnswer>>
}

/** `act` opens transactions itself, because none may be open while the processor is called. */
export interface ProcessorEndpoint<Input extends object = object> extends Documented<Input> {
  readonly kind: 'processor'
  act(call: AppCall<Input>, once: IdempotentRequest): Promise<Result<IdempotentResult>>
}

/** An endpoint for callers without an API key, whose answer contains a secret. */
export interface SignUpEndpoint<Input extends object = object> extends Documented<Input> {
  readonly kind: 'sign-up'
  act(tx: Tx, call: ParsedCall<Input>): Promise<Result<HttpAnswer>>
}

export type PaymentsEndpoint = AppEndpoint | ProcessorEndpoint | SignUpEndpoint

interface EndpointDocument {
  /** A unique id, which generated clients use as the name of the operation. */
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  readonly query?: readonly QueryParameter[]
  readonly body?: Example & { readonly required: boolean }
  /** The media type of a successful answer that is not JSON. Errors are always JSON. */
  readonly produces?: 'text/csv'
  /** The successful answers by status; null for an answer without a body. */
  readonly answers: Readonly<Record<number, Example | null>>
  /** Whether the endpoint can decline a payment, so that the body of a 400 may be a processing error. */
  readonly declines?: boolean
}

export interface Example {
  readonly schema: JsonObject
  readonly example: Json
}

export interface QueryParameter {
  readonly name: string
  readonly description: string
  readonly required: boolean
  /** `deepObject` for an object whose field names the caller chooses: `filter[custom][order]=A-17`. */
  readonly style?: 'deepObject'
  readonly schema: JsonObject
}
