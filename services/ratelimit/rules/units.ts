/**
 * The length of each unit's window in seconds. Windows are aligned to the epoch; months and years are not
 * those of the calendar.
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

/** Parses the unit of a configuration, in any case; undefined for an unknown name. */
export function parseUnit(text: string): Unit | undefined {
  const upper = text.toUpperCase()
  return units.find(unit => unit.toUpperCase() === upper)
}

/** The units for which an anchor has a meaning. */
export const unitsOfAnchor = {
  anchorMonth: ['month', 'year'],
  anchorDay: ['month', 'year'],
  anchorWeekday: ['week'],
} as const satisfies Readonly<Record<string, readonly Unit[]>>
