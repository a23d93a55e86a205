import { daySeconds, openTimeZone } from './time-zone.ts'

export const calendarUnits = ['day', 'week', 'month', 'year'] as const

export type CalendarUnit = (typeof calendarUnits)[number]

/** The days in the order of ISO 8601: a Monday is 1. */
export const weekdays = [
  'Monday',
  'Tuesday',
  'Wednesday',
  'Thursday',
  'Friday',
  'Saturday',
  'Sunday',
] as const

type Weekday = (typeof weekdays)[number]

/** The windows of a limit by the local calendar of a time zone. */
export interface CalendarWindows {
  readonly unit: CalendarUnit
  /** The name of a time zone in the IANA database; see `isTimeZone`. */
  readonly timeZone: string
  /** The number of units in a window; 1 if left out. */
  readonly unitMultiplier?: number | undefined
  /**
   * The month, from 1, in which a year begins. With windows of several months, one of the windows begins in
   * it. January if left out.
   */
  readonly anchorMonth?: number | undefined
  /**
   * The day of the month, from 1, on which a month or a year begins. In a shorter month it is the last day.
   * The first if left out.
   */
  readonly anchorDay?: number | undefined
  /** The day on which a week begins; Monday if left out. */
  readonly anchorWeekday?: Weekday | undefined
}

/** A window, in whole seconds since the epoch in UTC. `start` belongs to the window, `end` does not. */
export interface Window {
  readonly start: number
  readonly end: number
}

export interface Calendar {
  /**
   * Returns the window that contains the instant. The window of the last call is returned after two
   * comparisons; finding another one takes about 0.1 ms.
   */
  windowAt(utcSeconds: number): Window
}

/** At most this many calendars are kept for rules to share. The oldest is dropped for a new one. */
const maxCachedCalendars = 1000

const calendars = new Map<string, Calendar>()

/**
 * Returns the calendar of a rule. Rules with equal windows share one, so that its boundaries are computed
 * once. A window begins at the first instant of its local date (see `TimeZone.findFirstInstant`). Windows of
 * several units are counted from the unit that contains the local date 1970-01-01, or from `anchorMonth` of
 * 1970.
 *
 * @throws Error for an unknown time zone
 */
export function openCalendar(windows: CalendarWindows): Calendar {
  const { unit, timeZone, unitMultiplier = 1, anchorMonth = 1, anchorDay = 1, anchorWeekday } = windows
  const key = JSON.stringify([unit, timeZone, unitMultiplier, anchorMonth, anchorDay, anchorWeekday])
  const known = calendars.get(key)
  if (known !== undefined) return known
  const calendar = createCalendar(timeZone, unitMultiplier, numberUnits(windows))
  for (const oldest of calendars.keys()) {
    if (calendars.size < maxCachedCalendars) break
    calendars.delete(oldest)
  }
  calendars.set(key, calendar)
  return calendar
}

function createCalendar(timeZone: string, multiplier: number, { base, firstDayOf, unitOf }: Units): Calendar {
  const zone = openTimeZone(timeZone)

  const findStart = (index: number) => zone.findFirstInstant(firstDayOf(index * multiplier + base))

  /**
   * Begins with the window of the local date, which is usually right. It moves on or back if that window does
   * not contain the instant: the clock was set back to the date before, or the zone skips a date and its
   * window is empty.
   */
  function findWindow(utcSeconds: number): Window {
    const day = Math.floor(zone.localSecondsAt(utcSeconds) / daySeconds)
    let index = Math.floor((unitOf(day) - base) / multiplier)
    let start = findStart(index)
    let end = findStart(index + 1)
    while (utcSeconds >= end) {
      index += 1
      start = end
      end = findStart(index + 1)
    }
    while (utcSeconds < start) {
      index -= 1
      end = start
      start = findStart(index)
    }
    return { start, end }
  }

  let current: Window = { start: 0, end: 0 }
  return {
    windowAt(utcSeconds) {
      if (utcSeconds >= current.start && utcSeconds < current.end) return current
      current = findWindow(utcSeconds)
      return current
    },
  }
}

/** The units of a calendar, numbered. Days are counted from 1970-01-01. */
interface Units {
  /** The number of a unit with which one of the windows begins. */
  readonly base: number
  firstDayOf(unit: number): number
  /** Returns the number of the unit that contains a day. */
  unitOf(day: number): number
}

function numberUnits({
  unit,
  anchorMonth = 1,
  anchorDay = 1,
  anchorWeekday = 'Monday',
}: CalendarWindows): Units {
  switch (unit) {
    case 'day':
      return { base: 0, firstDayOf: day => day, unitOf: day => day }
    case 'week': {
      // 1970-01-01 is a Thursday.
      const shift = (7 + weekdays.indexOf('Thursday') - weekdays.indexOf(anchorWeekday)) % 7
      return {
        base: 0,
        firstDayOf: week => week * 7 - shift,
        unitOf: day => Math.floor((day + shift) / 7),
      }
    }
    case 'month':
      return byMonths(anchorMonth - 1, month => toDay(month, anchorDay), toMonth)
    case 'year':
      return byMonths(
        0,
        year => toDay(year * 12 + anchorMonth - 1, anchorDay),
        day => Math.floor(toMonth(day) / 12),
      )
  }
}

/**
 * Returns units that begin on a day of a month: months or years. `guess` returns the number of the unit that
 * contains a day, or a number that is higher by 1.
 */
function byMonths(base: number, firstDayOf: Units['firstDayOf'], guess: Units['unitOf']): Units {
  return {
    base,
    firstDayOf,
    unitOf: day => (day < firstDayOf(guess(day)) ? guess(day) - 1 : guess(day)),
  }
}

/** Returns the month that contains a day, in months since January 1970. */
function toMonth(day: number): number {
  const date = new Date(day * daySeconds * 1000)
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
}

/**
 * Returns the number of the day, in days since 1970, that is the anchor day of a month; of a month that is
 * shorter, its last day.
 *
 * @param month months since January 1970; it may be beyond the dates of Date, as for windows of a million
 * years
 */
function toDay(month: number, anchorDay: number): number {
  const first = firstOfMonth(month)
  const length = firstOfMonth(month + 1) - first
  return first + Math.min(anchorDay, length) - 1
}

/**
 * The Gregorian calendar repeats itself after 400 years, so dates beyond those of Date can be computed too.
 */
const monthsOfEra = 400 * 12
const daysOfEra = 146_097

function firstOfMonth(month: number): number {
  const era = Math.floor(month / monthsOfEra)
  return era * daysOfEra + Date.UTC(1970, month - era * monthsOfEra) / 1000 / daySeconds
}
