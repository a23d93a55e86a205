import type { Page } from '../../ratelimit-queries/pod-sessions.ts'
import type { ApiCaller, RightPlace } from '../access.ts'
import type { Right } from '../endpoints.ts'
import type { Parameters } from '../input.ts'
import type { ApiSources, CounterChangeEvent } from '../sources.ts'

/** One call of the API, with its parameters and its body validated. */
export interface ApiCall {
  readonly parameters: Parameters
  readonly body: unknown
  readonly caller: ApiCaller
  readonly sources: ApiSources
  /** Reports a change of a counter. */
  readonly changed: (change: CounterChangeEvent) => void
  /** Aborted when the client has gone, and when the server stops. */
  readonly signal: AbortSignal
}

export interface Handler {
  /** Returns where the caller needs the right of the endpoint. */
  placeOf(call: ApiCall): RightPlace
  /** Returns the right if it depends on the call. */
  rightOf?(call: ApiCall): Right
  /** Resolves with the answer. Rejects with an `ApiError` or a `QueryError`. */
  answer(call: ApiCall): Promise<unknown>
}

/** A handler that answers with a stream of events. */
export interface StreamHandler extends Pick<Handler, 'placeOf' | 'rightOf'> {
  /** The name of its events. */
  readonly event: string
  /** Rejects with the error of the answer before the stream begins. */
  check(call: ApiCall): Promise<void>
  stream(call: ApiCall): AsyncIterable<unknown>
}

/** Reads a text parameter that the endpoint requires. */
export const textOf = ({ parameters }: Pick<ApiCall, 'parameters'>, name: string) =>
  parameters[name] as string

/** Reads a text parameter that may be left out. */
export const optionalText = ({ parameters }: Pick<ApiCall, 'parameters'>, name: string) =>
  parameters[name] as string | undefined

/** The page of a list that the parameters `after` and `limit` name. */
export const pageIn = ({ parameters }: Pick<ApiCall, 'parameters'>) => parameters as Page
