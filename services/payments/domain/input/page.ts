import { isObject } from '@tollway/chassis/is-object.ts'
import { isId } from '../ids.ts'
import { accept, type Result } from '../rejections.ts'
import { integerBetween } from './fields.ts'
import {
  described,
  describeInput,
  optionalField,
  parseInput,
  type Reader,
  reader,
  record,
  rejectValue,
  requiredField,
} from './record.ts'

const maxPageItems = 100n

export interface PageInput<Filter> {
  readonly limit: number
  readonly after: Cursor | null
  readonly before: Cursor | null
  /**
   * The order of the page. Null for the order of the cursors: the oldest first with `after`, otherwise the
   * newest first.
   */
  readonly order: Order | null
  readonly filter: Filter
}

type Order = 'newest' | 'oldest'

/** A position in a list: the id of an element, or a time, which the public client sends. */
export type Cursor = { readonly id: string } | { readonly timeMs: number }

/** Matches a time written as an id of the public API: seconds since the epoch in 8 hex digits, then zeros. */
const timePattern = /^([0-9a-f]{8})0{16}$/

const cursorForm = 'An id, or a time as seconds since 1970 in 8 hex digits and 16 zeros.'
const cursorSchema = {
  type: 'string',
  pattern: '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}0{16})?$',
}

const cursor: Reader<Cursor> = reader(cursorSchema, (value, place) => {
  if (typeof value !== 'string') return rejectValue(place, 'type', `${describeInput(value)} is not an id`)
  if (isId(value)) return { id: value }
  const [, seconds] = timePattern.exec(value) ?? []
  if (seconds !== undefined) return { timeMs: Number.parseInt(seconds, 16) * 1000 }
  return rejectValue(place, 'format', `${describeInput(value)} is not an id of this service`)
})

const orders: Readonly<Record<string, Order>> = {
  '1': 'oldest',
  asc: 'oldest',
  '-1': 'newest',
  desc: 'newest',
}
const orderNames = Object.keys(orders)

const order: Reader<Order> = reader({ enum: orderNames }, (value, place) => {
  const name = orderNames.find(one => one === value)
  const found = name === undefined ? undefined : orders[name]
  return (
    found ?? rejectValue(place, 'format', `${describeInput(value)} is not one of ${orderNames.join(', ')}`)
  )
})

const sort = record({
  created: optionalField(
    described(
      order,
      'Another order than the cursors give: 1 or asc for the oldest first, -1 or desc for the newest.',
    ),
  ),
  id: optionalField(described(order, 'The same as sort[created].')),
})

export function pageReader<Filter>(filter: Reader<Filter>, maxItems: bigint = maxPageItems) {
  return record({
    limit: requiredField(described(integerBetween(1n, maxItems), 'The maximum number of elements.')),
    before: optionalField(
      described(cursor, `Returns the elements that are older than this one, the newest first. ${cursorForm}`),
    ),
    after: optionalField(
      described(cursor, `Returns the elements that are newer than this one, the oldest first. ${cursorForm}`),
    ),
    sort: optionalField(sort),
    filter: requiredField(filter),
  })
}

export function parsePage<Filter>(
  query: unknown,
  filter: Reader<Filter>,
  maxItems?: bigint,
): Result<PageInput<Filter>> {
  // Without a filter, the error names the required field in it, and not the filter as a whole.
  const complete = isObject(query) ? { filter: {}, ...query } : query
  const parsed = parseInput(pageReader(filter, maxItems), complete, 'form')
  if (!parsed.ok) return parsed
  const { limit, after, before, sort: sorted } = parsed.value
  return accept({
    limit: Number(limit),
    after,
    before,
    order: sorted?.created ?? sorted?.id ?? null,
    filter: parsed.value.filter,
  })
}
