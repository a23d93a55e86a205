import { type CalendarUnit, calendarUnits } from './calendar.ts'
import type { CalendarAnchors } from './fields.ts'

/**
 * The length of each unit's window in seconds. Windows are aligned to the epoch: a month is always 30 days
 * and a year 365 days, unless the limit has a calendar.
 */
export const unitSeconds = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
} as const

export type Unit = keyof typeof unitSeconds

export const units = Object.keys(unitSeconds) as readonly Unit[]

const unitsByUpperCase: ReadonlyMap<string, Unit> = new Map(units.map(unit => [unit.toUpperCase(), unit]))

/** Parses a unit of a configuration, in upper or lower case; undefined for an unknown unit. */
export function parseUnit(text: string): Unit | undefined {
  return unitsByUpperCase.get(text.toUpperCase())
}

/** The fields of a calendar that say where its windows begin. */
export const anchors = ['anchorMonth', 'anchorDay', 'anchorWeekday'] as const satisfies readonly Exclude<
  keyof CalendarAnchors,
  'timeZone'
>[]

type Anchor = (typeof anchors)[number]

/** The anchors that have a meaning for each unit of a calendar. */
const anchorsOfUnit = {
  day: [],
  week: ['anchorWeekday'],
  month: ['anchorMonth', 'anchorDay'],
  year: ['anchorMonth', 'anchorDay'],
} as const satisfies Readonly<Record<CalendarUnit, readonly Anchor[]>>

/** Returns the units for which an anchor has a meaning. */
export function unitsOfAnchor(anchor: Anchor): readonly CalendarUnit[] {
  return calendarUnits.filter(unit => anchorsOfUnit[unit].some(one => one === anchor))
}
