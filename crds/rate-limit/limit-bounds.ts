/** The bounds of a limit. Lengths are in characters. */
export const limitBounds = {
  maxNameLength: 128,
  /** Longer or more names would make CEL over the first level would cost more than an API server allows. */
  maxReplaces: 16,
  maxRequestsPerUnit: 0xffffffff,
  maxUnitMultiplier: 1_000_000,
  maxTimeZoneLength: 64,
  /** Limits on one descriptor. */
  minLimits: 2,
  maxLimits: 8,
} as const

/** The length of each unit's window in seconds. */
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

export const algorithms = ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const

/**
 * SlidingWindow and TokenBucket compute with products of a number of requests and a window in ticks, of which
 * the longest is a second. Products below this number are exact in doubles.
 */
export const endOfExactProducts = 2 ** 52

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
