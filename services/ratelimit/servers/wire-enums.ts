import type { Unit } from '../rules/units.ts'

// The enum values of the messages, from rls.proto and ratelimit_unit.proto. They are repeated here because
// the generated code loads the descriptions of all its messages into memory; a test compares them.

/** envoy.service.ratelimit.v3.RateLimitResponse.Code. */
const codes = { ok: 1, overLimit: 2 } as const

export function toCode(over: boolean): number {
  return over ? codes.overLimit : codes.ok
}

/** The units of a limit in a request, by the names of envoy.type.v3.RateLimitUnit. */
export const overrideUnitNumbers: ReadonlyMap<string, number> = new Map([
  ['UNKNOWN', 0],
  ['SECOND', 1],
  ['MINUTE', 2],
  ['HOUR', 3],
  ['DAY', 4],
  ['MONTH', 5],
  ['YEAR', 6],
])

/** The units of a limit in a request, by number. UNKNOWN and unknown numbers are undefined. */
export const overrideUnits: Readonly<Record<number, Unit | undefined>> = {
  1: 'second',
  2: 'minute',
  3: 'hour',
  4: 'day',
  5: 'month',
  6: 'year',
}

/** envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit. */
export const responseUnits: Readonly<Record<Unit, number>> = {
  second: 1,
  minute: 2,
  hour: 3,
  day: 4,
  month: 5,
  year: 6,
  week: 7,
}
