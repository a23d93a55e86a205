import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RateLimitPolicy } from '../config.ts'
import { validateWindows } from './validate-windows.ts'

type Fields = Partial<Record<keyof RateLimitPolicy, unknown>>

function problemsOf(fields: Fields): readonly string[] {
  const limit = { unit: 'day', requestsPerUnit: 1, unlimited: false, name: '', replaces: [], ...fields }
  return validateWindows(limit as RateLimitPolicy).map(
    ({ path, message, allowed }) => `${path}: ${message}; ${allowed}`,
  )
}

const utc = { timeZone: 'UTC' }
const whole = 'unitMultiplier cannot be'

const cases: readonly (readonly [Fields, readonly string[]])[] = [
  [{}, []],
  [{ unitMultiplier: 1_000_000 }, []],
  [{ unit: 'month', calendar: { ...utc, anchorMonth: 12, anchorDay: 31 } }, []],
  [{ unit: 'WEEK', calendar: { ...utc, anchorWeekday: 'Sunday' } }, []],
  [{ unitMultiplier: 0 }, [`unitMultiplier: ${whole} 0; a whole number from 1 to 1000000`]],
  [{ unitMultiplier: 1_000_001 }, [`unitMultiplier: ${whole} 1000001; a whole number from 1 to 1000000`]],
  [
    { calendar: { timeZone: 'Mars/Olympus' } },
    [
      "calendar.timeZone: unknown time zone 'Mars/Olympus'; " +
        'a name of the IANA time zone database, such as Europe/Copenhagen',
    ],
  ],
  [
    { unit: 'year', calendar: { ...utc, anchorMonth: 13, anchorDay: 32 } },
    [
      'calendar.anchorMonth: anchorMonth cannot be 13; a whole number from 1 to 12',
      'calendar.anchorDay: anchorDay cannot be 32; a whole number from 1 to 31',
    ],
  ],
  [
    { unit: 'second', calendar: utc },
    ['calendar: the calendar has no windows of the unit second; a unit of day, week, month, year'],
  ],
  [
    { calendar: { ...utc, anchorDay: 1, anchorWeekday: 'Monday' } },
    [
      'calendar.anchorDay: anchorDay has no meaning for the unit day; the unit month or year',
      'calendar.anchorWeekday: anchorWeekday has no meaning for the unit day; the unit week',
    ],
  ],
  [
    { unlimited: true, unit: '', unitMultiplier: 2, calendar: utc },
    [
      'unitMultiplier: unitMultiplier has no meaning for an unlimited rule; a limit',
      'calendar: calendar has no meaning for an unlimited rule; a limit',
    ],
  ],
]

test('problems of windows name the field, the value found and the values allowed', () => {
  for (const [fields, expected] of cases) assert.deepEqual(problemsOf(fields), expected)
})
