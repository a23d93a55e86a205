import type { Unit } from '../rules/units.ts'

// The enum values of the messages, from rls.proto and ratelimit_unit.proto. They are repeated here because
// the generated code loads the descriptions of all its messages into memory; a test compares them.

/** envoy.service.ratelimit.v3.RateLimitResponse.Code. */
const codes = { ok: 1, overLimit: 2 } as const

export function toCode(over: boolean): number {
  return over ? codes.overLimit : codes.ok
}

/** The numbers of envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit; UNKNOWN is 0. */
export const responseUnits: Readonly<Record<Unit, number>> = {
  second: 1,
  minute: 2,
  hour: 3,
  day: 4,
  month: 5,
  year: 6,
  week: 7,
}

/**
 * The units of a limit in a request, envoy.type.v3.RateLimitUnit, by number. They have the numbers of
 * `responseUnits`, but no week. UNKNOWN is undefined.
 */
export const overrideUnits: readonly (Unit | undefined)[] = [
  undefined,
  'second',
  'minute',
  'hour',
  'day',
  'month',
  'year',
]

/** The numbers of `overrideUnits`, by name. */
export const overrideUnitNumbers: ReadonlyMap<string, number> = new Map(
  overrideUnits.map((unit, number) => [unit?.toUpperCase() ?? 'UNKNOWN', number]),
)
