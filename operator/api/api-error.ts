import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import { type FieldProblem, formatFieldProblem } from '../kinds/translation.ts'
import { QueryError, type QueryErrorCode } from '../xds/sessions/query-error.ts'
import type { ErrorAnswer } from './shapes.ts'

/** An error answer of the API. The message contains no secret, because it is sent to the caller. */
export class ApiError extends ExpectedError {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string
  readonly problems: readonly FieldProblem[]
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    code: string,
    message: string,
    more: { readonly problems?: readonly FieldProblem[]; readonly headers?: Record<string, string> } = {},
  ) {
    super(message)
    this.status = status
    this.code = code
    this.problems = more.problems ?? []
    this.headers = more.headers ?? {}
  }
}

/** The error of invalid input. Its message names the first field, the value found and the values allowed. */
export function invalid(problems: readonly FieldProblem[]): ApiError {
  const [first = { path: '', message: 'is invalid' }] = problems
  return new ApiError(400, 'invalid', formatFieldProblem(first), { problems })
}

const statuses: Readonly<Record<QueryErrorCode, number>> = {
  'no-pods': 503,
  'unknown-domain': 404,
  'no-rule': 404,
  unlimited: 409,
  'backend-failed': 503,
  deadline: 504,
  'switched-off': 409,
  'not-supported': 409,
  invalid: 400,
  'too-many': 429,
}

const soon = { 'retry-after': '1' }

/** Returns the answer for an error; undefined for a defect. */
export function toApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error
  if (!(error instanceof QueryError)) return undefined
  const { code, field, message } = error
  const status = statuses[code]
  return new ApiError(status, code, message, {
    ...(field !== '' && { problems: [{ path: field, message }] }),
    ...((status === 429 || status === 503) && { headers: soon }),
  })
}

/** The body of an error answer. */
export function errorBody({ code, message, problems }: ApiError): ErrorAnswer {
  const [first] = problems
  return {
    error: {
      code,
      message,
      ...(first && {
        field: first.path,
        problems: problems.map(({ path, message }) => ({ field: path, message })),
      }),
    },
  }
}
