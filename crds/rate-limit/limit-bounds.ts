/** The bounds of a limit. Lengths are in characters. */
export const limitBounds = {
  maxNameLength: 128,
  /** With longer or more names, CEL over the first level would cost more than an API server allows. */
  maxReplaces: 16,
  maxRequestsPerUnit: 0xffffffff,
  maxUnitMultiplier: 1_000_000,
  maxTimeZoneLength: 64,
} as const

export const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'] as const

export type Unit = (typeof units)[number]

export const calendarUnits = ['day', 'week', 'month', 'year'] as const

export const weekdays = [
  'Monday',
  'Tuesday',
  'Wednesday',
  'Thursday',
  'Friday',
  'Saturday',
  'Sunday',
] as const

/** Which units each anchor of a calendar is for. */
export const anchorUnits = {
  anchorMonth: ['month', 'year'],
  anchorDay: ['month', 'year'],
  anchorWeekday: ['week'],
} as const satisfies Readonly<Record<string, readonly Unit[]>>
