import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { type PodSessions, PodSessionsError } from '../pod-sessions.ts'
import { isOperator } from './is-operator.ts'
import { type Query, type QueryResult, queryCodec, queryPath } from './query-codec.ts'

type Serve = (sessions: PodSessions, args: readonly never[], signal: AbortSignal) => AsyncIterable<unknown>

async function* one<T>(result: Promise<T>): AsyncGenerator<T> {
  yield await result
}

/** Each method with its arguments, as the other operator's `remotePodSessions` passes them. */
const served: Readonly<Record<keyof PodSessions, Serve>> = {
  pods: (sessions, [page]) => one(sessions.pods(page)),
  domains: (sessions, [page]) => one(sessions.domains(page)),
  rules: (sessions, [domain, page]) => one(sessions.rules(domain ?? ('' as never), page)),
  counter: (sessions, [at]) => one(sessions.counter(at as never)),
  reset: (sessions, [at]) => one(sessions.reset(at as never)),
  raise: (sessions, [at, by]) => one(sessions.raise(at as never, by as never)),
  top: (sessions, [of]) => one(sessions.top(of as never)),
  series: (sessions, [of], signal) => sessions.series(of as never, signal),
  tap: (sessions, [of], signal) => sessions.tap(of as never, signal),
  whatIf: (sessions, [of], signal) => sessions.whatIf(of as never, signal),
}

/** Answers the queries of other operators. Callers without a certificate of operators are rejected. */
export function queryMethods(sessions: PodSessions, operatorName: string): readonly AnyMethod[] {
  async function* handle(query: Query, call: Call): AsyncGenerator<QueryResult> {
    if (!isOperator(call, operatorName)) throw new GrpcError('PERMISSION_DENIED', 'only an operator may ask')
    const serve = Object.hasOwn(served, query.method) ? served[query.method as keyof PodSessions] : undefined
    if (serve === undefined) throw new GrpcError('UNIMPLEMENTED', `there is no method ${query.method}`)
    try {
      for await (const value of serve(sessions, query.arguments as readonly never[], call.signal)) {
        yield { value }
      }
    } catch (error) {
      if (!(error instanceof PodSessionsError)) throw error
      const { code, message, field } = error
      yield { error: { code, message, field } }
    }
  }

  return [{ kind: 'server-stream', path: queryPath, ...queryCodec, handle }]
}
