import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { QueryError } from '../pods/query-error.ts'
import { isOperator } from './is-operator.ts'
import { type Query, type QueryResult, queryCodec, queryPath } from './query-codec.ts'

/** Answers a query with its arguments, as the other operator passes them. */
export type ServeQuery = (args: readonly never[], signal: AbortSignal) => AsyncIterable<unknown>

/** The queries that operators answer for each other, by their names. */
export type ServedQueries = Readonly<Record<string, ServeQuery>>

/** The largest message that an operator receives: a what-if, whose configuration is in base64. */
export const maxQueryBytes = 16 * 1024 * 1024

export async function* oneAnswer<T>(result: Promise<T>): AsyncGenerator<T> {
  yield await result
}

/** Answers the queries of other operators. Callers without a certificate of operators are rejected. */
export function queryMethods(served: ServedQueries, operatorName: string): readonly AnyMethod[] {
  async function* handle(query: Query, call: Call): AsyncGenerator<QueryResult> {
    if (!isOperator(call, operatorName)) throw new GrpcError('PERMISSION_DENIED', 'only an operator may ask')
    const serve = Object.hasOwn(served, query.method) ? served[query.method] : undefined
    if (serve === undefined) throw new GrpcError('UNIMPLEMENTED', `there is no method ${query.method}`)
    try {
      for await (const value of serve(query.arguments as readonly never[], call.signal)) yield { value }
    } catch (error) {
      if (!(error instanceof QueryError)) throw error
      const { code, message, field } = error
      yield { error: { code, message, field } }
    }
  }

  return [{ kind: 'server-stream', path: queryPath, ...queryCodec, handle }]
}
