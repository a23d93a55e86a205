import { GrpcError } from '@tollway/grpc/status.ts'
import { QueryError } from '../pods/query-error.ts'
import type { LeaderLink } from './leader-link.ts'
import { askingCodec, queryPath } from './query-codec.ts'

/** The time for an answer of the operator with the Lease, beside the longest deadline of the processes. */
const deadlineMs = 10_000

/** Asks the operator with the Lease, which has the sessions of all processes. */
export interface LeaderQueries {
  /** Whether this operator answers itself. */
  isLocal(): boolean
  /** Yields the results of a query until the signal is aborted. Throws `QueryError`. */
  ask(method: string, args: readonly unknown[], signal: AbortSignal): AsyncGenerator<unknown>
  /** Resolves with the only result of a query. Rejects with `QueryError`. */
  askOnce<T>(method: string, ...args: readonly unknown[]): Promise<T>
}

export function askLeader(leader: Pick<LeaderLink, 'current'>): LeaderQueries {
  async function* ask(
    method: string,
    args: readonly unknown[],
    signal: AbortSignal,
  ): AsyncGenerator<unknown> {
    const current = leader.current()
    if (current === undefined) return
    const either = AbortSignal.any([signal, current.signal])
    const call = current.client.bidi(queryPath, askingCodec, { signal: either })
    void call.write({ method, arguments: args })
    call.end()
    try {
      for await (const result of call.messages) {
        if ('error' in result)
          throw new QueryError(result.error.code, result.error.message, result.error.field)
        yield result.value
      }
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof GrpcError)) throw error
      throw new QueryError('deadline', `ask the operator with the Lease: ${error.message}`)
    }
  }

  return {
    isLocal: () => leader.current() === undefined,
    ask,
    async askOnce<T>(method: string, ...args: readonly unknown[]): Promise<T> {
      for await (const value of ask(method, args, AbortSignal.timeout(deadlineMs))) return value as T
      const message = `the operator with the Lease did not answer within ${deadlineMs} ms`
      throw new QueryError('deadline', message)
    },
  }
}
