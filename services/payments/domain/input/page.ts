import { isObject } from '@tollway/chassis/is-object.ts'
import { isId } from '../ids.ts'
import { isRefused, type Refused } from '../refusals.ts'
import { integer } from './fields.ts'
import { optional, parseInput, quote, type Reader, record, refuseValue, required } from './record.ts'

/** The most elements that a list gives at once. */
export const maxPageItems = 100n

/** A part of a list, as the specification's pagination asks for it. */
export interface PageInput<Filter> {
  readonly limit: number
  readonly after: Cursor | null
  readonly before: Cursor | null
  /** Null for the order that the cursors give. */
  readonly order: Order | null
  readonly filter: Filter
}

export type Order = 'newest' | 'oldest'

/** The id of an element, or a time: what the public client sends for its `since` and `until`. */
export type Cursor = { readonly id: string } | { readonly timeMs: number }

/** A time in the form of the public API's ids: seconds since the epoch in 8 hex digits, the rest zeros. */
const timePattern = /^([0-9a-f]{8})0{16}$/

const cursor: Reader<Cursor> = (value, place) => {
  if (typeof value !== 'string') return refuseValue(place, 'type', `${quote(value)} is not an id`)
  if (isId(value)) return { id: value }
  const [, seconds] = timePattern.exec(value) ?? []
  if (seconds !== undefined) return { timeMs: Number.parseInt(seconds, 16) * 1000 }
  return refuseValue(place, 'format', `${quote(value)} is not an id of this service`)
}

const orders: ReadonlyMap<unknown, Order> = new Map([
  ['-1', 'newest'],
  ['desc', 'newest'],
  ['1', 'oldest'],
  ['asc', 'oldest'],
])

const order: Reader<Order> = (value, place) => {
  const found = orders.get(value)
  return (
    found ?? refuseValue(place, 'format', `${quote(value)} is not one of ${[...orders.keys()].join(', ')}`)
  )
}

const sort = record({ created: optional(order), id: optional(order) })

/**
 * The query of a list: limit (required), after, before, sort by creation and filters. Lists without filters
 * pass a reader of no fields: `record({})`.
 */
export function parsePage<Filter>(
  query: unknown,
  filter: Reader<Filter>,
  maxItems: bigint = maxPageItems,
): PageInput<Filter> | Refused {
  const shape = {
    limit: required(integer(1n, maxItems)),
    after: optional(cursor),
    before: optional(cursor),
    sort: optional(sort),
    filter: required(filter),
  }
  // Reports the required field of the filter instead of a missing filter.
  const complete = isObject(query) ? { filter: {}, ...query } : query
  const parsed = parseInput(record(shape), complete, 'form')
  if (isRefused(parsed)) return parsed
  const { limit, after, before, sort: sorted } = parsed
  return {
    limit: Number(limit),
    after,
    before,
    order: sorted?.created ?? sorted?.id ?? null,
    filter: parsed.filter,
  }
}
