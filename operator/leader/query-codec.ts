import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import { QueryAnswerSchema, QueryRequestSchema } from '@tollway/proto/tollway/operator/v1/counters'
import type { QueryErrorCode } from '../pods/query-error.ts'

export const queryPath = '/tollway.operator.v1.CounterService/Query'

/** A query of another operator. */
export interface Query {
  readonly method: string
  readonly arguments: readonly unknown[]
}

/** One result, or the error of the call. */
export type QueryResult =
  | { readonly value: unknown }
  | {
      readonly error: {
        readonly code: QueryErrorCode
        readonly message: string
        readonly field: string
      }
    }

/** The codec of the operator that answers. */
export const queryCodec: Codec<Query, QueryResult> = {
  decode(bytes) {
    const { method, arguments: json } = fromBinary(QueryRequestSchema, bytes)
    const list: readonly unknown[] = JSON.parse(json)
    // JSON has no undefined.
    return { method, arguments: list.map(argument => argument ?? undefined) }
  },
  encode: result =>
    toBinary(QueryAnswerSchema, create(QueryAnswerSchema, { result: JSON.stringify(result) })),
}

/** The codec of the operator that asks. */
export const askingCodec: Codec<QueryResult, Query> = {
  encode: ({ method, arguments: list }) =>
    toBinary(QueryRequestSchema, create(QueryRequestSchema, { method, arguments: JSON.stringify(list) })),
  decode: bytes => JSON.parse(fromBinary(QueryAnswerSchema, bytes).result),
}
