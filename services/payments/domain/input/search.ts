import { isObject } from '@tollway/chassis/is-object.ts'
import type { FieldErrorCode } from '../rejections.ts'
import {
  type LineSearch,
  maxSearchDays,
  type TimeRange,
  type TransactionSearch,
  transactionStatuses,
} from '../transaction/transaction.ts'
import { enumeration, id, textField } from './fields.ts'
import {
  described,
  describeInput,
  type FieldContext,
  type InvalidInput,
  invalidValue,
  optionalField,
  type Reader,
  reader,
  record,
  rejectValue,
} from './record.ts'
import { maxLinkTextCharacters } from './request-bodies.ts'

/** The maximum number of `custom` fields in a search, and the maximum length of each value in characters. */
const maxCustomFields = 5
const maxCustomCharacters = 200

const dayMs = 24 * 60 * 60 * 1000
const instantPattern = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/

const instantSchema = {
  type: 'string',
  pattern:
    '^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,3})?)?(Z|[+-][0-9]{2}:[0-9]{2}))?$',
}

/** Reads a date or a time of RFC 3339 as milliseconds since the epoch. A date stands for its start in UTC. */
const instant: Reader<number> = reader(instantSchema, (value, place) => {
  const date = typeof value === 'string' ? instantPattern.exec(value)?.[1] : undefined
  const ms = date === undefined ? Number.NaN : Date.parse(value as string)
  // Compares the day, because Date.parse accepts 2026-02-30 and returns the second of March.
  const isDay = !Number.isNaN(ms) && new Date(`${date}T00:00:00Z`).toISOString().startsWith(`${date}`)
  if (isDay) return ms
  return rejectValue(
    place,
    'format',
    `${describeInput(value)} is not a date or time such as 2026-07-01T08:30:00Z`,
  )
})

/** Rejects text that cannot be stored, because it cannot be found. */
const searched = textField(maxCustomCharacters)

const customSchema = {
  type: 'object',
  maxProperties: maxCustomFields,
  additionalProperties: { type: 'string', maxLength: maxCustomCharacters },
}

const customFields: Reader<Readonly<Record<string, string>>> = reader(customSchema, (value, place) => {
  if (!isObject(value)) {
    return rejectValue(
      place,
      'type',
      `${describeInput(value)} is not a field with a value, such as filter[custom][order]=A-17`,
    )
  }
  const entries = Object.entries(value)
  if (entries.length > maxCustomFields) {
    return rejectValue(
      place,
      'too_many',
      `has ${entries.length} fields; at most ${maxCustomFields} are allowed`,
    )
  }
  const read = entries.map(([name, wanted]) => {
    const at = { ...place, path: `${place.path}.${name.slice(0, maxCustomCharacters)}` }
    return [searched(name, at), searched(wanted, at)] as const
  })
  const good = read.filter((entry): entry is readonly [string, string] => !entry.includes(invalidValue))
  return good.length < entries.length ? invalidValue : Object.fromEntries(good)
})

const created = record({
  from: optionalField(
    described(
      instant,
      'Only what was created at this time or later: a date, which is its start in UTC, or a time of RFC 3339. The ' +
        'list is then in the order of creation.',
    ),
  ),
  to: optionalField(
    described(
      instant,
      `Only what was created before this date or time, at most ${maxSearchDays} days after the start.`,
    ),
  ),
})

const searchFields = record({
  reference: optionalField(
    described(
      textField(maxLinkTextCharacters),
      'Only transactions whose payment link had exactly this reference.',
    ),
  ),
  custom: optionalField(
    described(
      customFields,
      `Only transactions whose custom data has these fields with these values, as filter[custom][order]=A-17. At ` +
        `most ${maxCustomFields} fields of the first level; values are compared as text. Needs filter[created][from].`,
    ),
  ),
  status: optionalField(
    described(
      enumeration(transactionStatuses),
      'Only transactions of which an amount is pending, or was captured, refunded, voided or disputed, or that ' +
        'were declined. Needs filter[created][from].',
    ),
  ),
  created: optionalField(created),
})

/** A search by `custom` or `status` needs `created.from`, because no index serves it alone. */
export const transactionSearch: Reader<TransactionSearch> = reader(searchFields.schema, (value, place) => {
  const found = searchFields(value, place)
  if (found === invalidValue) return invalidValue
  const { reference, custom, status } = found
  const bounded = timeRange(found.created, custom !== null || status !== null, place)
  return bounded === invalidValue ? invalidValue : { reference, custom, status, ...bounded }
})

export const transactionId = described(id, 'Only records of this transaction.')

const lineFields = record({ transactionId: optionalField(transactionId), created: optionalField(created) })

export const lineSearch: Reader<LineSearch> = reader(lineFields.schema, (value, place) => {
  const found = lineFields(value, place)
  if (found === invalidValue) return invalidValue
  const bounded = timeRange(found.created, false, place)
  return bounded === invalidValue ? invalidValue : { transactionId: found.transactionId, ...bounded }
})

interface Range {
  readonly from: number | null
  readonly to: number | null
}

function timeRange(range: Range | null, isNeeded: boolean, place: FieldContext): TimeRange | InvalidInput {
  const { from, to } = range ?? { from: null, to: null }
  const reject = (field: keyof Range, code: FieldErrorCode, message: string): InvalidInput =>
    rejectValue({ ...place, path: `${place.path}.created.${field}` }, code, message)
  if (from === null) {
    if (!isNeeded && to === null) return { fromMs: null, toMs: null }
    return reject('from', 'required', 'is missing; a search by status, custom or created.to needs it')
  }
  // Without `to`, the range has the maximum length.
  const latest = from + maxSearchDays * dayMs
  if (to === null) return { fromMs: from, toMs: latest }
  if (to <= from) return reject('to', 'too_small', 'is not later than created.from')
  if (to <= latest) return { fromMs: from, toMs: to }
  const days = Math.ceil((to - from) / dayMs)
  return reject(
    'to',
    'too_large',
    `is ${days} days after created.from; at most ${maxSearchDays} days are allowed`,
  )
}
