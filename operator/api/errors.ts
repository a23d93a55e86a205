import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import { formatProblem, type ResourceProblem } from '../kinds/kind-adapter.ts'
import { QueryError, type QueryErrorCode } from '../pods/query-error.ts'
import type { ErrorAnswer } from './shapes.ts'

interface CatalogueEntry {
  /**
   * The HTTP statuses of answers with this error. The first one is used unless an `ApiError` names another.
   */
  readonly statuses: readonly [number, ...number[]]
  readonly meaning: string
  /** What the caller can do about it. */
  readonly action: string
}

const again = 'Repeat the call after the time in `Retry-After`.'

/** Every error of the API by its code, in the order of the reference page. Programs rely on the codes. */
export const apiErrors = {
  invalid: {
    statuses: [400, 422],
    meaning:
      'A parameter, the body or a resource is not valid, or the bytes are no HTTP request. 422: the API server ' +
      'has rejected the resource.',
    action: 'Correct `field`. `problems` has all fields at fault.',
  },
  unauthenticated: {
    statuses: [401],
    meaning: 'The bearer token is missing, not valid, or expired.',
    action: 'Send `Authorization: Bearer TOKEN` with a token of the cluster.',
  },
  forbidden: {
    statuses: [403],
    meaning: 'The user of the token does not have the right.',
    action: 'Ask for the right that the message names; `GET /rights` lists those of the caller.',
  },
  'other-site': {
    statuses: [403],
    meaning: 'A browser has sent the call for a page of another site.',
    action: 'Call the API from the console, or from a program.',
  },
  'not-found': {
    statuses: [404],
    meaning: 'There is no such path, resource or request of a broker.',
    action: 'Correct the path, or the name in `field`; `GET /openapi.json` lists the paths.',
  },
  'unknown-domain': {
    statuses: [404],
    meaning: 'Neither a resource nor a process has the domain.',
    action: 'Take a domain of `GET /domains`.',
  },
  'unknown-rule': {
    statuses: [404],
    meaning: 'Neither the resource of the domain nor a process has the rule.',
    action: 'Take a rule of `GET /domains/{domain}/rules`.',
  },
  'no-rule': {
    statuses: [404],
    meaning: 'No rule with a limit matches the entries.',
    action: '`POST /try` explains which rule the entries reach.',
  },
  method: {
    statuses: [405],
    meaning: 'The path does not have the method.',
    action: 'Use a method of the header `Allow`.',
  },
  deadline: {
    statuses: [504, 408],
    meaning: 'No process has answered in time. 408: the request has not arrived in time.',
    action: 'Repeat the call. A reset or a raise may have been made: read the counter first.',
  },
  changed: {
    statuses: [409],
    meaning: 'The resource does not have the `version` of the call.',
    action: 'Read the manifest again, and apply the change to it.',
  },
  conflict: {
    statuses: [409],
    meaning: 'The file of the resource cannot be written, or another manager of the cluster owns the fields.',
    action: 'Follow the message. In a cluster, `force` takes the fields over.',
  },
  unlimited: {
    statuses: [409],
    meaning: 'The entries match an unlimited rule, which has no counter.',
    action: 'Name entries of a rule with a limit.',
  },
  'switched-off': {
    statuses: [409],
    meaning: 'A setting of the rate limit service switches the function off.',
    action: 'Change the setting that the message names.',
  },
  'not-supported': {
    statuses: [409],
    meaning: 'The processes, or the backend of their counters, do not support the call.',
    action: 'Upgrade the processes of an earlier version, or change the backend.',
  },
  'too-large': {
    statuses: [413, 431],
    meaning: 'The body is too large. 431: the address and the headers are.',
    action: 'Send less; the message has the limit.',
  },
  'content-type': {
    statuses: [415],
    meaning: 'The content type of a POST is not `application/json`.',
    action: 'Send `Content-Type: application/json`.',
  },
  'too-many': {
    statuses: [429],
    meaning: 'As many calls, streams or what-ifs run as are allowed.',
    action: again,
  },
  internal: {
    statuses: [500],
    meaning: 'The operator has a defect.',
    action: 'Report the line `answer API call failed` of its log.',
  },
  proxy: {
    statuses: [501],
    meaning: 'The operator reaches the API server through the `proxy-url` of a kubeconfig.',
    action: 'Apply or read the resource with `kubectl`.',
  },
  stopping: {
    statuses: [503],
    meaning: 'The operator stops.',
    action: again,
  },
  'no-pods': {
    statuses: [503],
    meaning: 'No rate limit process is connected to an operator.',
    action: `Start the rate limit service, or wait until it is ready. ${again}`,
  },
  'backend-failed': {
    statuses: [503],
    meaning: 'The backend of the counters has failed.',
    action: 'Repair the backend. A reset or a raise may have been made: read the counter first.',
  },
  'broker-failed': {
    statuses: [503],
    meaning: 'A broker does not answer, or cannot make the preview.',
    action: 'Repeat the call; the message has the cause.',
  },
  'reviews-failed': {
    statuses: [503],
    meaning: 'The API server does not verify tokens or rights at the moment.',
    action: again,
  },
  'api-server': {
    statuses: [503],
    meaning:
      'The API server has failed, or has answered an error that no other code has: then the status is its 4xx.',
    action: 'Follow the message, which is that of the API server.',
  },
} as const satisfies Readonly<Record<string, CatalogueEntry>>

export type ApiErrorCode = keyof typeof apiErrors

/** An error answer of the API. The message contains no secret, because it is sent to the caller. */
export class ApiError extends ExpectedError {
  override readonly name = 'ApiError'
  readonly code: ApiErrorCode
  readonly status: number
  readonly problems: readonly ResourceProblem[]
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ApiErrorCode,
    message: string,
    more: {
      readonly status?: number
      readonly problems?: readonly ResourceProblem[]
      readonly headers?: Readonly<Record<string, string>>
    } = {},
  ) {
    super(message)
    this.code = code
    this.status = more.status ?? apiErrors[code].statuses[0]
    this.problems = more.problems ?? []
    this.headers = more.headers ?? {}
  }
}

/**
 * Creates the error of invalid input. The message is the first problem: the field, what was found and what is
 * allowed.
 */
export function invalidInput(problems: readonly ResourceProblem[]): ApiError {
  const [first = { path: '', message: 'is invalid' }] = problems
  return new ApiError('invalid', formatProblem(first), { problems })
}

/** Creates the error of one field. The message already names the field. */
export const errorOfField = (code: ApiErrorCode, path: string, message: string) =>
  new ApiError(code, message, { problems: [{ path, message }] })

/** Creates an error with the header `retry-after: 1`: the caller may repeat the call after a second. */
export const busy = (code: ApiErrorCode, message: string) =>
  new ApiError(code, message, { headers: { 'retry-after': '1' } })

/** Returns the API error for an expected error; undefined for any other error, which is a defect. */
export function toApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error
  if (!(error instanceof QueryError)) return undefined
  const { code, field, message } = error
  const known: ApiErrorCode = isKnown(code) ? code : 'not-supported'
  const problems = field === '' ? [] : [{ path: field, message }]
  const [status] = apiErrors[known].statuses
  const isTemporary = status === 429 || status === 503
  return new ApiError(known, message, { problems, headers: isTemporary ? { 'retry-after': '1' } : {} })
}

/**
 * Returns whether the API has this code. An operator of a later version that has the Lease may send other
 * codes.
 */
const isKnown = (code: QueryErrorCode): boolean => Object.hasOwn(apiErrors, code)

/** Returns the body of an error answer. Without problems, `field` is left out. */
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
