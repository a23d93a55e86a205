import { fromBinary } from '@bufbuild/protobuf'
import { isObject } from '@tollway/chassis/is-object.ts'
import { shorten } from '@tollway/chassis/text.ts'
import { statusName } from '@tollway/grpc/status.ts'
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  type RateLimitResponse_DescriptorStatus,
  RateLimitResponseSchema,
  RateLimitResponse_Code as ResponseCode,
  RateLimitResponse_RateLimit_Unit as Unit,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import type { CallOutcome } from './peer.ts'

export interface ComparedFields {
  /** Whether to compare `limitRemaining` and the values of headers that end in `-remaining`. */
  readonly remaining: boolean
  /** Whether to compare `durationUntilReset`, in seconds, and the values of headers that end in `-reset`. */
  readonly reset: boolean
}

export interface Difference {
  /** `DOMAIN: KEY=VALUE,...`, or `DOMAIN: whole answer` for a field outside of the statuses. */
  readonly descriptor: string
  readonly field: string
  readonly reference: string
  readonly candidate: string
}

const maxTextLength = 201
const none = 'none'

export function findDifferences(
  request: Uint8Array,
  reference: CallOutcome,
  candidate: CallOutcome,
  compared: ComparedFields,
): readonly Difference[] {
  if ('answer' in reference && 'answer' in candidate) {
    if (Buffer.compare(reference.answer, candidate.answer) === 0) return []
    const [expected, found] = [reference, candidate].map(({ answer }) =>
      fromBinary(RateLimitResponseSchema, answer),
    ) as [RateLimitResponse, RateLimitResponse]
    return compareAnswers(fromBinary(RateLimitRequestSchema, request), expected, found, compared)
  }
  const [expected, found] = [describeStatus(reference), describeStatus(candidate)]
  if (expected === found) return []
  const { domain } = fromBinary(RateLimitRequestSchema, request)
  return [{ descriptor: wholeAnswer(domain), field: 'status', reference: expected, candidate: found }]
}

const describeStatus = (outcome: CallOutcome) => ('answer' in outcome ? 'OK' : statusName(outcome.error.code))

const wholeAnswer = (domain: string) => `${show(domain)}: whole answer`

function compareAnswers(
  { domain, descriptors }: RateLimitRequest,
  reference: RateLimitResponse,
  candidate: RateLimitResponse,
  compared: ComparedFields,
): readonly Difference[] {
  const whole = { descriptor: wholeAnswer(domain) }
  const ofStatuses = descriptors.flatMap(({ entries }, index) => {
    const pairs = entries.map(({ key, value }) => `${key}=${value}`).join()
    const descriptor = `${show(domain)}: ${show(pairs)}`
    const [expected, found] = [reference.statuses[index], candidate.statuses[index]]
    if (expected === undefined || found === undefined) return []
    return compareFields(descriptor, statusFields(expected, compared), statusFields(found, compared))
  })
  const [expected, found] = [answerFields(reference, compared), answerFields(candidate, compared)]
  return [...ofStatuses, ...compareFields(whole.descriptor, expected, found)]
}

type Fields = Readonly<Record<string, string>>

function compareFields(descriptor: string, expected: Fields, found: Fields): readonly Difference[] {
  return Object.entries(expected).flatMap(([field, reference]) => {
    const candidate = found[field] ?? none
    if (reference === candidate) return []
    return [{ descriptor, field, reference: show(reference), candidate: show(candidate) }]
  })
}

function statusFields(status: RateLimitResponse_DescriptorStatus, { remaining, reset }: ComparedFields) {
  const { code, currentLimit, limitRemaining, durationUntilReset } = status
  const name = currentLimit?.name ? ` (${currentLimit.name})` : ''
  const limit = currentLimit && `${currentLimit.requestsPerUnit}/${Unit[currentLimit.unit]}${name}`
  return {
    code: `${ResponseCode[code] ?? code}`,
    limit: limit ?? none,
    ...(remaining && { limitRemaining: `${limitRemaining}` }),
    ...(reset && { durationUntilReset: `${durationUntilReset?.seconds ?? none}` }),
  }
}

function answerFields(answer: RateLimitResponse, compared: ComparedFields) {
  const headers = (list: RateLimitResponse['responseHeadersToAdd']) =>
    list
      .map(({ key, value }) => `${key}: ${isCompared(key, compared) ? value : '*'}`)
      .sort()
      .join(', ') || none
  return {
    overallCode: `${ResponseCode[answer.overallCode] ?? answer.overallCode}`,
    statuses: `${answer.statuses.length}`,
    responseHeadersToAdd: headers(answer.responseHeadersToAdd),
    requestHeadersToAdd: headers(answer.requestHeadersToAdd),
    rawBody: Buffer.from(answer.rawBody).toString() || none,
    dynamicMetadata: answer.dynamicMetadata === undefined ? none : sortedJson(answer.dynamicMetadata),
  }
}

/** Remaining hits change with each call, and times until a reset with the clock. */
function isCompared(header: string, { remaining, reset }: ComparedFields): boolean {
  if (/-remaining$/i.test(header)) return remaining
  if (/-reset$/i.test(header)) return reset
  return true
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  )
}

function show(text: string): string {
  const cut = shorten(text, maxTextLength)
  return escapeControls(cut === text ? text : `${cut} (${text.length} characters)`)
}
