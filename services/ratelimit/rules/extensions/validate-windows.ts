import { calendarUnits, weekdays } from '../calendar/calendar.ts'
import { isTimeZone } from '../calendar/time-zone.ts'
import { type CalendarAnchors, maxUnitMultiplier, parseUnit, type RateLimitPolicy } from '../config.ts'

/** A problem of a field of a limit. */
export interface WindowProblem {
  /** Below the limit: `calendar.timeZone`. */
  readonly path: string
  readonly message: string
  readonly allowed: string
}

/** The units for which an anchor has a meaning. */
const unitsOfAnchor = {
  anchorMonth: ['month', 'year'],
  anchorDay: ['month', 'year'],
  anchorWeekday: ['week'],
} as const

const lastOf = { anchorMonth: 12, anchorDay: 31 } as const

/** Finds the problems of `unitMultiplier` and `calendar`. `validate` checks the unit and `unlimited`. */
export function validateWindows(limit: RateLimitPolicy): readonly WindowProblem[] {
  const { unlimited, unitMultiplier, calendar } = limit
  if (unlimited) {
    const fields = Object.entries({ unitMultiplier, calendar }).filter(([, value]) => value !== undefined)
    return fields.map(([path]) => ({
      path,
      message: `${path} has no meaning for an unlimited rule`,
      allowed: 'a limit',
    }))
  }
  const problems: WindowProblem[] = []
  if (unitMultiplier !== undefined && !isWhole(unitMultiplier, maxUnitMultiplier)) {
    const message = `unitMultiplier cannot be ${unitMultiplier}`
    problems.push({
      path: 'unitMultiplier',
      message,
      allowed: `a whole number from 1 to ${maxUnitMultiplier}`,
    })
  }
  return calendar === undefined ? problems : [...problems, ...validateCalendar(calendar, limit.unit)]
}

function validateCalendar(calendar: CalendarAnchors, unitText: string): readonly WindowProblem[] {
  const { timeZone, anchorMonth, anchorDay, anchorWeekday } = calendar
  const problems: WindowProblem[] = []
  const report = (path: string, message: string, allowed: string) =>
    void problems.push({ path, message, allowed })
  if (!isTimeZone(timeZone)) {
    const message = `unknown time zone '${timeZone}'`
    report('calendar.timeZone', message, 'a name of the IANA time zone database, such as Europe/Copenhagen')
  }
  for (const [name, value] of Object.entries({ anchorMonth, anchorDay })) {
    const last = lastOf[name as keyof typeof lastOf]
    if (value === undefined || isWhole(value, last)) continue
    report(`calendar.${name}`, `${name} cannot be ${value}`, `a whole number from 1 to ${last}`)
  }
  if (anchorWeekday !== undefined && !weekdays.includes(anchorWeekday)) {
    const message = `anchorWeekday cannot be ${anchorWeekday}`
    report('calendar.anchorWeekday', message, `one of ${weekdays.join(', ')}`)
  }
  const unit = parseUnit(unitText)
  if (unit === undefined) return problems
  if (!calendarUnits.some(one => one === unit)) {
    report(
      'calendar',
      `the calendar has no windows of the unit ${unit}`,
      `a unit of ${calendarUnits.join(', ')}`,
    )
    return problems
  }
  for (const [name, value] of Object.entries({ anchorMonth, anchorDay, anchorWeekday })) {
    const units: readonly string[] = unitsOfAnchor[name as keyof typeof unitsOfAnchor]
    if (value === undefined || units.includes(unit)) continue
    report(
      `calendar.${name}`,
      `${name} has no meaning for the unit ${unit}`,
      `the unit ${units.join(' or ')}`,
    )
  }
  return problems
}

function isWhole(value: number, last: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= last
}
