import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LimitProblem } from './fields.ts'
import type { RateLimitPolicy } from './model.ts'
import { ticksPerSecond } from './ticks.ts'
import { validateLimit, validateLimits } from './validate-limit.ts'

type Fields = Partial<Record<keyof RateLimitPolicy, unknown>>

function limitOf(fields: Fields): RateLimitPolicy {
  const limit = { unit: 'day', requestsPerUnit: 1, unlimited: false, name: '', replaces: [], ...fields }
  return limit as RateLimitPolicy
}

function show({ path, message, allowed }: LimitProblem): string {
  return `${path}: ${message}; ${allowed}`
}

const utc = { timeZone: 'UTC' }
const concurrent = {
  ...{ algorithm: 'Concurrency', unit: '', requestsPerUnit: undefined },
  ...{ maxConcurrent: 2, leaseSeconds: 86_400 },
}
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
    {
      unlimited: true,
      unit: '',
      unitMultiplier: 2,
      calendar: utc,
      algorithm: 'TokenBucket',
      burst: 2,
      countRejected: true,
    },
    [
      'algorithm: algorithm has no meaning for an unlimited rule; a limit',
      'burst: burst has no meaning for an unlimited rule; a limit',
      'unitMultiplier: unitMultiplier has no meaning for an unlimited rule; a limit',
      'calendar: calendar has no meaning for an unlimited rule; a limit',
      'countRejected: countRejected has no meaning for an unlimited rule; a limit',
    ],
  ],
  [{ algorithm: 'TokenBucket', burst: 1 }, []],
  [{ algorithm: 'FixedWindow', calendar: utc }, []],
  [
    { algorithm: 'LeakyBucket' },
    [
      'algorithm: algorithm cannot be LeakyBucket; one of FixedWindow, SlidingWindow, TokenBucket, Concurrency',
    ],
  ],
  [{ burst: 3 }, ['burst: burst has no meaning for the algorithm FixedWindow; the algorithm TokenBucket']],
  [{ algorithm: 'TokenBucket', burst: 0 }, ['burst: burst cannot be 0; a whole number from 1 to 4294967295']],
  [
    { algorithm: 'SlidingWindow', calendar: utc },
    ['calendar: calendar has no meaning for the algorithm SlidingWindow; the algorithm FixedWindow'],
  ],
  [{ algorithm: 'TokenBucket', unit: 'year', requestsPerUnit: 142_808_207 }, []],
  [
    { algorithm: 'TokenBucket', unit: 'year', requestsPerUnit: 142_808_207, burst: 142_808_208 },
    ['burst: burst cannot be 142808208 for TokenBucket with a window of 31536000 s; at most 142808207'],
  ],
  [concurrent, []],
  [
    { algorithm: 'Concurrency', unit: '', requestsPerUnit: undefined, leaseSeconds: 86_401 },
    [
      'leaseSeconds: leaseSeconds cannot be 86401; a whole number from 1 to 86400',
      'maxConcurrent: maxConcurrent is missing for the algorithm Concurrency; a whole number from 1 to 4294967295',
    ],
  ],
  [
    { ...concurrent, unit: 'minute', requestsPerUnit: 1, unitMultiplier: 2, countRejected: true, burst: 2 },
    [
      'burst: burst has no meaning for the algorithm Concurrency; the algorithm TokenBucket',
      ...['unit', 'requestsPerUnit', 'unitMultiplier', 'countRejected'].map(
        name =>
          `${name}: ${name} has no meaning for the algorithm Concurrency; maxConcurrent and leaseSeconds instead`,
      ),
    ],
  ],
  [{ delivery: 'Quota', unit: 'minute', requestsPerUnit: 60 }, []],
  [
    { delivery: 'Quota', unit: 'minute', requestsPerUnit: 120, unitMultiplier: 2, algorithm: 'TokenBucket' },
    [],
  ],
  [
    { delivery: 'Quota', unit: 'minute', requestsPerUnit: 119, unitMultiplier: 2 },
    ['delivery: delivery: Quota cannot share 119 requests in 120 s; at least 120, which is one a second'],
  ],
  [
    { ...concurrent, delivery: 'Quota' },
    [
      'delivery: delivery: Quota has no meaning for the algorithm Concurrency; the algorithm FixedWindow or TokenBucket',
    ],
  ],
  [
    { delivery: 'Quota', unit: 'day', requestsPerUnit: 90_000, calendar: utc },
    ['delivery: delivery: Quota has no meaning with a calendar; no calendar'],
  ],
  [
    { algorithm: 'TokenBucket', maxConcurrent: 2, leaseSeconds: 3 },
    ['maxConcurrent', 'leaseSeconds'].map(
      name => `${name}: ${name} has no meaning for the algorithm TokenBucket; the algorithm Concurrency`,
    ),
  ],
  [{ counting: 'Leased', calendar: utc }, []],
  [{ counting: 'Leased', algorithm: 'TokenBucket', burst: 2 }, []],
  [
    { counting: 'Leased', algorithm: 'SlidingWindow' },
    [
      'counting: counting cannot be Leased for the algorithm SlidingWindow, which counts each request at its own ' +
        'time; the algorithm FixedWindow or TokenBucket',
    ],
  ],
  [
    { ...concurrent, counting: 'Leased' },
    [
      'counting: counting cannot be Leased for the algorithm Concurrency, whose requests give back what they hold; ' +
        'the algorithm FixedWindow or TokenBucket',
    ],
  ],
  [
    { counting: 'Leased', countRejected: true },
    [
      'counting: counting cannot be Leased with countRejected: rejected requests ask no counter; Exact, or ' +
        'countRejected left out',
    ],
  ],
  [
    { algorithm: 'SlidingWindow', unit: 'year', unitMultiplier: 1_000_000, requestsPerUnit: 143 },
    [
      'requestsPerUnit: requestsPerUnit cannot be 143 for SlidingWindow with a window of 31536000000000 s; ' +
        'at most 142',
    ],
  ],
]

test('problems of a limit name the field, the value found and the values allowed', () => {
  for (const [fields, expected] of cases) {
    assert.deepEqual(validateLimit(limitOf(fields)).map(show), expected)
  }
})

test('several limits are 2 to 8, and none of them is unlimited', () => {
  const problems = (count: number, more: Fields = {}) =>
    validateLimits(Array.from({ length: count }, (_, index) => limitOf(index === 1 ? more : {}))).map(show)
  for (const count of [2, 8]) assert.deepEqual(problems(count), [])
  assert.deepEqual(problems(1), [': limits cannot have 1 member; 2 to 8 limits'])
  assert.deepEqual(problems(9), [': limits cannot have 9 members; 2 to 8 limits'])
  assert.deepEqual(problems(2, { unlimited: true }), [
    '[1].unlimited: unlimited is not allowed inside limits; a limit, or rateLimit for an unlimited rule',
  ])
})

test('a rule has the smallest tick for which its products are exact', () => {
  const rates = (requests: number) => [1, 3600, 31_536_000].map(window => ticksPerSecond(requests, window))
  assert.deepEqual(rates(0), [1_000_000, 1_000_000, 1_000_000])
  assert.deepEqual(rates(143), [1_000_000, 1_000_000, 1000])
  assert.deepEqual(rates(0xffffffff), [1_000_000, 1, undefined])
})
