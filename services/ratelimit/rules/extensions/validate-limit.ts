import { calendarUnits, weekdays } from '../calendar/calendar.ts'
import { isTimeZone } from '../calendar/time-zone.ts'
import {
  algorithms,
  type CalendarAnchors,
  maxLimits,
  maxRequestsPerUnit,
  maxUnitMultiplier,
  minLimits,
  type RateLimitPolicy,
} from '../rate-limit-domain.ts'
import { type Anchor, parseUnit, unitSeconds, unitsOfAnchor } from '../units.ts'
import { mostRequestsOf, ticksPerSecond } from './ticks.ts'

/** A problem of a field of a limit, or of a list of limits. */
export interface LimitProblem {
  /** The path below the limit: `calendar.timeZone`. Empty for the limit or the list itself. */
  readonly path: string
  readonly message: string
  readonly allowed: string
}

const lastOf = { anchorMonth: 12, anchorDay: 31 } as const

/** Finds the problems of the fields that extend the reference's limits, without those of `limits`. */
export function validateLimit(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { unlimited, algorithm, burst, unitMultiplier, calendar, countRejected } = limit
  if (unlimited) {
    const fields = Object.entries({ algorithm, burst, unitMultiplier, calendar, countRejected }).filter(
      ([, value]) => value !== undefined,
    )
    return fields.map(([path]) => ({
      path,
      message: `${path} has no meaning for an unlimited rule`,
      allowed: 'a limit',
    }))
  }
  return [...validateAlgorithm(limit), ...validateWindows(limit)]
}

/** Finds the problems of `limits` that its members do not have by themselves. */
export function validateLimits(limits: readonly RateLimitPolicy[]): readonly LimitProblem[] {
  const problems = limits.flatMap(({ unlimited }, index) => {
    const message = 'unlimited is not allowed inside limits'
    return unlimited
      ? [{ path: `[${index}].unlimited`, message, allowed: 'a limit, or rateLimit for an unlimited rule' }]
      : []
  })
  if (limits.length >= minLimits && limits.length <= maxLimits) return problems
  const message = `limits cannot have ${limits.length} ${limits.length === 1 ? 'member' : 'members'}`
  return [{ path: '', message, allowed: `${minLimits} to ${maxLimits} limits` }, ...problems]
}

function validateAlgorithm(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { algorithm = 'FixedWindow', burst, calendar } = limit
  if (!algorithms.includes(algorithm)) {
    const message = `unknown algorithm '${algorithm}'`
    return [{ path: 'algorithm', message, allowed: `one of ${algorithms.join(', ')}` }]
  }
  const problems: LimitProblem[] = []
  if (burst !== undefined && !isWhole(burst, maxRequestsPerUnit)) {
    const allowed = `a whole number from 1 to ${maxRequestsPerUnit}`
    problems.push({ path: 'burst', message: `burst cannot be ${burst}`, allowed })
  }
  if (burst !== undefined && algorithm !== 'TokenBucket') {
    const message = `burst has no meaning for the algorithm ${algorithm}`
    problems.push({ path: 'burst', message, allowed: 'the algorithm TokenBucket' })
  }
  if (calendar !== undefined && algorithm !== 'FixedWindow') {
    const message = `calendar has no meaning for the algorithm ${algorithm}`
    problems.push({ path: 'calendar', message, allowed: 'the algorithm FixedWindow' })
  }
  return algorithm === 'FixedWindow' ? problems : [...problems, ...validateProducts(limit)]
}

/** Finds products for which no tick is exact. */
function validateProducts(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { algorithm, requestsPerUnit = 0, burst = 0, unitMultiplier = 1 } = limit
  const unit = parseUnit(limit.unit)
  if (unit === undefined || !isWhole(unitMultiplier, maxUnitMultiplier)) return []
  const windowSeconds = unitSeconds[unit] * unitMultiplier
  return Object.entries({ requestsPerUnit, burst }).flatMap(([path, requests]) => {
    if (ticksPerSecond(requests, windowSeconds) !== undefined) return []
    const message = `${path} cannot be ${requests} for ${algorithm} with a window of ${windowSeconds} s`
    return [{ path, message, allowed: `at most ${mostRequestsOf(windowSeconds)}` }]
  })
}

function validateWindows({ unit, unitMultiplier, calendar }: RateLimitPolicy): readonly LimitProblem[] {
  const problems: LimitProblem[] = []
  if (unitMultiplier !== undefined && !isWhole(unitMultiplier, maxUnitMultiplier)) {
    const message = `unitMultiplier cannot be ${unitMultiplier}`
    problems.push({
      path: 'unitMultiplier',
      message,
      allowed: `a whole number from 1 to ${maxUnitMultiplier}`,
    })
  }
  return calendar === undefined ? problems : [...problems, ...validateCalendar(calendar, unit)]
}

function validateCalendar(calendar: CalendarAnchors, unitText: string): readonly LimitProblem[] {
  const { timeZone, anchorMonth, anchorDay, anchorWeekday } = calendar
  const problems: LimitProblem[] = []
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
    const units: readonly string[] = unitsOfAnchor(name as Anchor)
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
