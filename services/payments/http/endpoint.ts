import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import type { Encoding } from '../domain/input/record.ts'
import type { App } from '../domain/merchant/merchant.ts'
import type { Result } from '../domain/rejections.ts'
import type { Payments } from '../operations/operation.ts'
import type { IdempotentRequest, IdempotentResult } from '../storage/idempotency/answers.ts'
import type { Tx } from '../storage/storage.ts'
import type { HttpAnswer } from './answer.ts'

/** A request to an endpoint whose input is not parsed yet. */
export interface EndpointCall {
  readonly payments: Payments
  /** The parameters of the path. A text that is not an id matches no record. */
  readonly params: Readonly<Record<string, string>>
  /** The query's fields, names with brackets as objects. */
  readonly query: unknown
  readonly body: unknown
  readonly encoding: Encoding
  /** Whether the caller expects what it changed in the answer. */
  readonly wantsChanged: boolean
}

/** A call with valid input. */
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
  /** Parses the input before a transaction begins. Its errors are shown to authenticated callers only. */
  parse?(call: EndpointCall): Result<Input>
}

/** An endpoint that runs in one transaction, which is rolled back if `act` returns a rejection. */
export interface AppEndpoint<Input extends object = object> extends Documented<Input> {
  readonly kind: 'app'
  act(tx: Tx, call: AppCall<Input>): Promise<Result<HttpAnswer>>
}

/** An endpoint that calls the processor, outside of transactions. */
export interface ProcessorEndpoint<Input extends object = object> extends Documented<Input> {
  readonly kind: 'processor'
  act(call: AppCall<Input>, once: IdempotentRequest): Promise<Result<IdempotentResult>>
}

/** An endpoint without a key, whose answer is a secret. */
export interface SignUpEndpoint<Input extends object = object> extends Documented<Input> {
  readonly kind: 'sign-up'
  act(tx: Tx, call: ParsedCall<Input>): Promise<Result<HttpAnswer>>
}

export type PaymentsEndpoint = AppEndpoint | ProcessorEndpoint | SignUpEndpoint

/** The description of an endpoint in the OpenAPI document. */
interface EndpointDocument {
  /** Unique. Generated clients use it as the name of the operation. */
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  readonly query?: readonly QueryParameter[]
  readonly body?: Example & { readonly required: boolean }
  /** The media type of success, where it is not JSON. Errors are JSON. */
  readonly produces?: 'text/csv'
  /** The answers of success by status; null for one without a body. */
  readonly answers: Readonly<Record<number, Example | null>>
  /** Whether a payment can be declined here: then a 400 may have a processing error. */
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
  /** `deepObject` for fields in brackets whose names the caller chooses. */
  readonly style?: 'deepObject'
  readonly schema: JsonObject
}
