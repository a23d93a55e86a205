import { createHash } from 'node:crypto'
import { quote } from '@tollway/chassis/text.ts'
import { maxJsonAmount } from '../domain/money/money.ts'
import { disputeOutcomes } from '../domain/transaction/dispute.ts'
import { isFraudReason } from '../domain/transaction/fraud.ts'
import type { ProcessorEvent } from './processor.ts'

const maxNameCharacters = 200
const maxReasonCharacters = 500
/** The latest time that a Date of ECMAScript can represent, in milliseconds since the epoch. */
const maxTimeMs = 8.64e15
const maxQuotedCharacters = 80

/** Returns a message that describes what is wrong with a value; undefined for a valid value. */
type Check = (value: unknown) => string | undefined

const name: Check = value => textProblem(value, maxNameCharacters)
const reason: Check = value => (value === null ? undefined : textProblem(value, maxReasonCharacters))
const time: Check = value =>
  Number.isInteger(value) && Math.abs(value as number) <= maxTimeMs
    ? undefined
    : `${describeValue(value)} is not a time in milliseconds`
const timeOrNull: Check = value => (value === null ? undefined : time(value))
const currency: Check = value =>
  typeof value === 'string' && /^[A-Z]{3}$/.test(value)
    ? undefined
    : `${describeValue(value)} is not an ISO 4217 currency code`
const fraudReason: Check = value =>
  value === null || isFraudReason(value) ? undefined : `${describeValue(value)} is not a reason of a fraud`

function amount(value: unknown): string | undefined {
  if (typeof value !== 'bigint') return `${describeValue(value)} is not a whole number`
  if (value < 1n) return `${describeValue(value)} is below 1`
  return value > maxJsonAmount ? `${describeValue(value)} is above ${maxJsonAmount}` : undefined
}

function anyOf(allowed: readonly string[]): Check {
  return value =>
    allowed.some(one => one === value)
      ? undefined
      : `${describeValue(value)} is not one of ${allowed.join(', ')}`
}

const common = { id: name, reference: name, occurredMs: time }
const checks: Readonly<Record<ProcessorEvent['kind'], Readonly<Record<string, Check>>>> = {
  fraud: { ...common, reason: fraudReason },
  'dispute-raised': { ...common, dispute: name, amount, currency, reason, dueMs: timeOrNull },
  'dispute-resolved': { ...common, dispute: name, outcome: anyOf(disputeOutcomes) },
}

/**
 * Validates the types, lengths and ranges of the fields of an event that the processor reported.
 *
 * @returns the first error, as `field: found and allowed value`; undefined for a valid event
 */
export function findEventProblem(event: unknown): string | undefined {
  if (typeof event !== 'object' || event === null) return `${describeValue(event)} is not an event`
  const fields = event as Readonly<Record<string, unknown>>
  const kindProblem = anyOf(Object.keys(checks))(fields['kind'])
  if (kindProblem !== undefined) return `kind: ${kindProblem}`
  for (const [field, check] of Object.entries(checks[fields['kind'] as ProcessorEvent['kind']])) {
    const problem = check(fields[field])
    if (problem !== undefined) return `${field}: ${problem}`
  }
  return undefined
}

/** What is stored of an invalid event: the id and the start of the JSON. */
export interface MalformedEvent {
  readonly kind: 'malformed'
  readonly id: string
  readonly start: string
}

const maxStartCharacters = 1_000

/**
 * Returns a record of limited size for an invalid event of any form. Replaces an id that cannot be stored
 * with a hash of the event.
 */
export function describeMalformed(event: unknown): MalformedEvent {
  const text = serialise(event)
  const id = (event as { readonly id?: unknown } | null)?.id
  const hash = () => `malformed-${createHash('sha256').update(text).digest('hex')}`
  return {
    kind: 'malformed',
    id: name(id) === undefined ? (id as string) : hash(),
    start: text.slice(0, maxStartCharacters).toWellFormed(),
  }
}

function serialise(value: unknown): string {
  try {
    const readable = (_: string, part: unknown) => (typeof part === 'bigint' ? `${part}` : part)
    return JSON.stringify(value, readable) ?? typeof value
  } catch {
    return typeof value
  }
}

function textProblem(value: unknown, maxCharacters: number): string | undefined {
  if (typeof value !== 'string') return `${describeValue(value)} is not a text`
  if (value === '') return `${describeValue(value)} is empty`
  if (value.length > maxCharacters) {
    return `${describeValue(value)} has ${value.length} characters; at most ${maxCharacters} are allowed`
  }
  // PostgreSQL rejects the character U+0000 and unpaired surrogates.
  if (/\p{Cc}/u.test(value) || !value.isWellFormed()) return `${describeValue(value)} has a control character`
  return undefined
}

/** Cuts and quotes text, without control characters, which logs and terminals could interpret. */
function describeValue(value: unknown): string {
  if (value === null || typeof value === 'number' || typeof value === 'undefined') return `${value}`
  if (typeof value === 'bigint') return `${value}`.slice(0, maxQuotedCharacters)
  if (typeof value !== 'string') return typeof value
  return quote(value, maxQuotedCharacters)
}
