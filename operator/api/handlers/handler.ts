import type { PageRequest } from '../../ratelimit-queries/pod-sessions.ts'
import type { ApiCaller, RightScope } from '../access.ts'
import type { ApiRight } from '../endpoints.ts'
import type { CallParameters } from '../input.ts'
import type { ApiSources, CounterChangeEvent } from '../sources.ts'

/** One call of the API, with its parameters and its body validated. */
export interface ApiCall {
  readonly parameters: CallParameters
  readonly body: unknown
  readonly caller: ApiCaller
  readonly sources: ApiSources
  /** Reports a change of a counter, for the log and Events. */
  readonly changed: (change: CounterChangeEvent) => void
  /** Aborted when the client disconnects, and when the server stops. */
  readonly signal: AbortSignal
}

export interface Handler {
  resolveScope(call: ApiCall): RightScope
  /** Returns the right that the caller needs, for endpoints whose right depends on the call. */
  resolveRight?(call: ApiCall): ApiRight
  /** Resolves with the answer. Rejects with an `ApiError` or a `QueryError`. */
  answer(call: ApiCall): Promise<unknown>
}

export interface StreamHandler extends Pick<Handler, 'resolveScope' | 'resolveRight'> {
  readonly event: string
  /** Rejects with the error of the answer before the stream begins. */
  check(call: ApiCall): Promise<void>
  stream(call: ApiCall): AsyncIterable<unknown>
}

export const requiredText = ({ parameters }: Pick<ApiCall, 'parameters'>, name: string) =>
  parameters[name] as string

export const optionalText = ({ parameters }: Pick<ApiCall, 'parameters'>, name: string) =>
  parameters[name] as string | undefined

/** Returns the page of a list that the parameters `after` and `limit` ask for. */
export const readPage = ({ parameters }: Pick<ApiCall, 'parameters'>) => parameters as PageRequest
