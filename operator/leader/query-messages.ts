import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  QueryFailure_Code as Code,
  type QueryAnswer,
  QueryAnswerSchema,
  type QueryRequest,
  QueryRequestSchema,
} from '@tollway/proto/tollway/operator/v1/leader'
import { QueryError, type QueryErrorCode } from '../pods/query-error.ts'

type Query = QueryRequest['query']
type Answer = QueryAnswer['answer']

export type QueryName = NonNullable<Query['case']>
type ValueOf<Oneof, Name> =
  Extract<Oneof, { readonly case: Name }> extends { readonly value: infer Value } ? Value : never

export type QueryFields<Name extends QueryName> = Plain<ValueOf<Query, Name>>
export type AnswerFields<Name extends QueryName> = Plain<ValueOf<Answer, Name>>
/** The fields of a query, or of an answer, to write: see `Writable`. */
export type NewQuery<Name extends QueryName> = Writable<ValueOf<Query, Name>>
export type NewAnswer<Name extends QueryName> = Writable<ValueOf<Answer, Name>>

type Leaf = Uint8Array | bigint | string | number | boolean | null | undefined
type LibraryField = '$typeName' | '$unknown'

/** A message as read-only data, without the fields that the protobuf library adds. */
type Plain<Value> = Value extends Leaf
  ? Value
  : Value extends readonly (infer Item)[]
    ? readonly Plain<Item>[]
    : {
        readonly [Key in keyof Value as Key extends LibraryField ? never : Key]: Plain<
          undefined extends Value[Key] ? Exclude<Value[Key], undefined> : Value[Key]
        >
      }

/** A message to write as plain data, like `Plain`, except that an absent field may also be null. */
type Writable<Value> = Value extends Leaf
  ? Value
  : Value extends readonly (infer Item)[]
    ? readonly Writable<Item>[]
    : {
        readonly [Key in keyof Value as Key extends LibraryField ? never : Key]:
          | Writable<Value[Key]>
          | (undefined extends Value[Key] ? null | undefined : never)
      }

export interface DecodedQuery<Name extends QueryName> {
  readonly name: Name
  readonly fields: QueryFields<Name>
}

export function encodeQuery<Name extends QueryName>(name: Name, fields: NewQuery<Name>): Uint8Array {
  const query = { case: name, value: fields } as MessageInitShape<typeof QueryRequestSchema>['query']
  return toBinary(QueryRequestSchema, create(QueryRequestSchema, query === undefined ? {} : { query }))
}

/** @throws GrpcError INVALID_ARGUMENT, or UNIMPLEMENTED for a query of a later version */
export function decodeQuery(bytes: Uint8Array): DecodedQuery<QueryName> {
  let query: Query
  try {
    query = fromBinary(QueryRequestSchema, bytes).query
  } catch (error) {
    throw new GrpcError('INVALID_ARGUMENT', `decode a query: ${(error as Error).message}`)
  }
  if (query.case === undefined) throw new GrpcError('UNIMPLEMENTED', 'this version does not know the query')
  return { name: query.case, fields: toPlain(query.value) as QueryFields<QueryName> }
}

export function encodeAnswer<Name extends QueryName>(name: Name, fields: NewAnswer<Name>): Uint8Array {
  return encode({ case: name, value: fields } as NonNullable<AnswerInit>)
}

export function encodeFailure({ code, message, field }: QueryError): Uint8Array {
  return encode({ case: 'failure', value: { code: codes[code], message, field } })
}

type AnswerInit = MessageInitShape<typeof QueryAnswerSchema>['answer']

const encode = (answer: NonNullable<AnswerInit>) =>
  toBinary(QueryAnswerSchema, create(QueryAnswerSchema, { answer }))

/** @throws QueryError the failure in the answer, or `deadline` if the answer is to a query of another name */
export function readAnswer<Name extends QueryName>(name: Name, { answer }: QueryAnswer): AnswerFields<Name> {
  if (answer.case === 'failure') {
    const { code, message, field } = answer.value
    throw new QueryError(codeNames.get(code) ?? 'deadline', message, field)
  }
  if (answer.case === name) return toPlain(answer.value) as AnswerFields<Name>
  const found = answer.case ?? 'an answer of a later version'
  throw new QueryError('deadline', `the operator with the Lease answered ${name} with ${found}`)
}

export const decodeAnswer = (bytes: Uint8Array): QueryAnswer => fromBinary(QueryAnswerSchema, bytes)

const codes: Readonly<Record<QueryErrorCode, Code>> = {
  'no-pods': Code.NO_PODS,
  'unknown-domain': Code.UNKNOWN_DOMAIN,
  'no-rule': Code.NO_RULE,
  unlimited: Code.UNLIMITED,
  'backend-failed': Code.BACKEND_FAILED,
  deadline: Code.DEADLINE,
  'switched-off': Code.SWITCHED_OFF,
  'not-supported': Code.NOT_SUPPORTED,
  invalid: Code.INVALID,
  'too-many': Code.TOO_MANY,
}
const codeNames = new Map(Object.entries(codes).map(([name, code]) => [code, name as QueryErrorCode]))

/**
 * Copies a message without the fields that the protobuf library adds: the API would show the type name among
 * them.
 */
function toPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlain)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  const fields = Object.entries(value).filter(([key]) => key !== '$typeName' && key !== '$unknown')
  return Object.fromEntries(fields.map(([key, field]) => [key, toPlain(field)]))
}
