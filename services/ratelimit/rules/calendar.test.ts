import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CalendarWindows, openCalendar } from './calendar.ts'
import { isTimeZone, timeZoneDataVersion } from './time-zone.ts'

type Case = readonly [
  name: string,
  windows: Omit<CalendarWindows, 'timeZone'> & { readonly timeZone?: string },
  at: string,
  start: string,
  end: string,
]

const day = { unit: 'day' } as const
const month = { unit: 'month' } as const
const year = { unit: 'year' } as const
const week = { unit: 'week' } as const

const cases: readonly Case[] = [
  ['a day', day, '2026-11-23T23:59:59', '2026-11-23', '2026-11-24'],
  [
    'a day in summer time',
    { ...day, timeZone: 'Europe/Copenhagen' },
    '2026-07-01T21:59:59',
    '2026-06-30T22:00:00',
    '2026-07-01T22:00:00',
  ],
  [
    'a day of 23 hours',
    { ...day, timeZone: 'Europe/Copenhagen' },
    '2026-03-29T12:00:00',
    '2026-03-28T23:00:00',
    '2026-03-29T22:00:00',
  ],
  [
    'a day without midnight: the clock goes from 23:59:59 to 01:00',
    { ...day, timeZone: 'America/Sao_Paulo' },
    '2018-11-04T12:00:00',
    '2018-11-04T03:00:00',
    '2018-11-05T02:00:00',
  ],
  [
    'a day that begins twice begins the first time: the clock goes from 00:00:59 back to 23:01',
    { ...day, timeZone: 'America/St_Johns' },
    '2006-10-29T02:45:00',
    '2006-10-29T02:30:00',
    '2006-10-30T03:30:00',
  ],
  [
    'the day before a skipped one',
    { ...day, timeZone: 'Pacific/Apia' },
    '2011-12-30T09:59:59',
    '2011-12-29T10:00:00',
    '2011-12-30T10:00:00',
  ],
  [
    'the day after a skipped one',
    { ...day, timeZone: 'Pacific/Apia' },
    '2011-12-30T10:00:00',
    '2011-12-30T10:00:00',
    '2011-12-31T10:00:00',
  ],
  [
    'a month that begins on a skipped day begins on the next one',
    { ...month, timeZone: 'Pacific/Apia', anchorDay: 30 },
    '2011-12-30T10:00:00',
    '2011-12-30T10:00:00',
    '2012-01-29T10:00:00',
  ],
  ['a week begins on Monday', week, '2026-11-29T23:00:00', '2026-11-23', '2026-11-30'],
  ['a week from Sunday', { ...week, anchorWeekday: 'Sunday' }, '2026-11-29', '2026-11-29', '2026-12-06'],
  ['a week from Thursday', { ...week, anchorWeekday: 'Thursday' }, '1970-01-01', '1970-01-01', '1970-01-08'],
  ['a week from Friday', { ...week, anchorWeekday: 'Friday' }, '1970-01-01', '1969-12-26', '1970-01-02'],
  ['a month', month, '2026-02-28T23:59:59', '2026-02-01', '2026-03-01'],
  ['a month from the 15th', { ...month, anchorDay: 15 }, '2026-03-14', '2026-02-15', '2026-03-15'],
  ['a month from the 31st', { ...month, anchorDay: 31 }, '2026-03-01', '2026-02-28', '2026-03-31'],
  ['a month from the 31st, leap', { ...month, anchorDay: 31 }, '2028-02-29', '2028-02-29', '2028-03-31'],
  ['a year', year, '2026-12-31T23:59:59', '2026-01-01', '2027-01-01'],
  ['a year from April', { ...year, anchorMonth: 4 }, '2026-03-31', '2025-04-01', '2026-04-01'],
  [
    'a year from 29 February',
    { ...year, anchorMonth: 2, anchorDay: 29 },
    '2028-02-28',
    '2027-02-28',
    '2028-02-29',
  ],
  ['two days', { ...day, unitMultiplier: 2 }, '1970-01-04', '1970-01-03', '1970-01-05'],
  ['a quarter', { ...month, unitMultiplier: 3 }, '2026-11-23', '2026-10-01', '2027-01-01'],
  [
    'a quarter from February',
    { ...month, unitMultiplier: 3, anchorMonth: 2 },
    '2026-11-23',
    '2026-11-01',
    '2027-02-01',
  ],
  ['ten years', { ...year, unitMultiplier: 10 }, '2026-11-23', '2020-01-01', '2030-01-01'],
  ['1,000 years', { ...year, unitMultiplier: 1000 }, '2026-11-23', '1970-01-01', '2970-01-01'],
  [
    '100,000 years',
    { ...year, unitMultiplier: 100_000, timeZone: 'Asia/Tokyo' },
    '1970-01-01',
    '1969-12-31T15:00:00',
    '+101970-01-01',
  ],
]

for (const [name, windows, at, start, end] of cases) {
  test(`a window of the calendar: ${name}`, () => {
    const { windowAt } = openCalendar({ timeZone: 'UTC', ...windows })
    const found = windowAt(secondsOf(at))
    assert.deepEqual([found.start, found.end].map(showSeconds), [start, end].map(secondsOf).map(showSeconds))
    assert.equal(windowAt(found.start), found, 'the window is not computed again within it')
    assert.equal(windowAt(found.end).start, found.end)
    assert.equal(windowAt(found.start - 1).end, found.start)
  })
}

test('the longest windows end beyond the dates of Date', () => {
  const { start, end } = openCalendar({ ...year, timeZone: 'UTC', unitMultiplier: 1_000_000 }).windowAt(0)
  assert.deepEqual([start, end], [0, (1_000_000 / 400) * 146_097 * 86_400])
})

test('rules with equal windows share a calendar', () => {
  const windows = { ...month, timeZone: 'Europe/Copenhagen', anchorDay: 3 }
  assert.equal(openCalendar({ ...windows }), openCalendar(windows))
  assert.notEqual(openCalendar({ ...windows, anchorDay: 4 }), openCalendar(windows))
})

test('a time zone has a name of the IANA database', () => {
  for (const name of ['Europe/Copenhagen', 'America/Argentina/Ushuaia', 'Etc/GMT+5', 'UTC', 'Asia/Kolkata'])
    assert.ok(isTimeZone(name), name)
  for (const name of ['', 'Mars/Olympus', '+01:00', 'Local', 'Europe/', ' UTC', '__proto__'])
    assert.ok(!isTimeZone(name), name)
  assert.throws(() => openCalendar({ ...day, timeZone: '+01:00' }), /time zone "\+01:00" is unknown/)
  assert.match(timeZoneDataVersion, /^20\d\d[a-z]$/)
})

function secondsOf(utc: string): number {
  return Date.parse(utc.includes('T') ? `${utc}Z` : utc) / 1000
}

function showSeconds(seconds: number): string {
  return new Date(seconds * 1000).toISOString()
}
