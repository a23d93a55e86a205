import { calendarUnits } from './calendar.ts'
import {
  type CalendarAnchors,
  checkFields,
  fieldsOfLimited,
  isConcurrency,
  type LimitProblem,
  memberFields,
} from './fields.ts'
import { maxLimits, minLimits, type RateLimitPolicy } from './model.ts'
import { findMostRequests, ticksPerSecond } from './ticks.ts'
import { isTimeZone } from './time-zone.ts'
import { anchors, parseUnit, unitSeconds, unitsOfAnchor } from './units.ts'

/**
 * Finds the problems of one limit in the fields that envoyproxy/ratelimit does not have. `validateLimits`
 * checks a list of limits.
 */
export function validateLimit(limit: RateLimitPolicy): readonly LimitProblem[] {
  if (limit.unlimited) {
    return fieldsOfLimited.flatMap(path => {
      const message = `${path} has no meaning for an unlimited rule`
      return limit[path] === undefined ? [] : [{ path, message, allowed: 'a limit' }]
    })
  }
  const problems = checkFields(memberFields, limit)
  const { algorithm = 'FixedWindow', burst, calendar, maxConcurrent, leaseSeconds } = limit
  const others = [burst, calendar, maxConcurrent, leaseSeconds]
  if (algorithm === 'FixedWindow' && others.every(field => field === undefined)) return problems
  const isInvalid = (path: string) => problems.some(problem => problem.path === path)
  return [
    ...problems,
    ...(isInvalid('algorithm') ? [] : [...checkAlgorithm(limit), ...checkConcurrency(limit)]),
    ...(isInvalid('algorithm') || isInvalid('unitMultiplier') ? [] : checkProducts(limit)),
    ...(calendar === undefined ? [] : checkCalendar(calendar, limit.unit)),
  ]
}

/**
 * Finds the problems of a list of limits as a whole: a wrong number of members, and members that are
 * unlimited.
 */
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

function checkAlgorithm(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { algorithm = 'FixedWindow', burst, calendar } = limit
  const problems: LimitProblem[] = []
  if (burst !== undefined && algorithm !== 'TokenBucket') {
    const message = `burst has no meaning for the algorithm ${algorithm}`
    problems.push({ path: 'burst', message, allowed: 'the algorithm TokenBucket' })
  }
  if (calendar !== undefined && algorithm !== 'FixedWindow') {
    const message = `calendar has no meaning for the algorithm ${algorithm}`
    problems.push({ path: 'calendar', message, allowed: 'the algorithm FixedWindow' })
  }
  return problems
}

const fieldsOfConcurrency = ['maxConcurrent', 'leaseSeconds'] as const

/** Finds fields that only `Concurrency` has, that it lacks, and that it cannot have. */
function checkConcurrency(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { algorithm = 'FixedWindow', unit, requestsPerUnit, unitMultiplier, countRejected } = limit
  if (!isConcurrency(limit)) {
    return fieldsOfConcurrency.flatMap(path => {
      const message = `${path} has no meaning for the algorithm ${algorithm}`
      return limit[path] === undefined ? [] : [{ path, message, allowed: 'the algorithm Concurrency' }]
    })
  }
  const missing = fieldsOfConcurrency.filter(path => limit[path] === undefined)
  const found = Object.entries({
    unit: unit !== '',
    requestsPerUnit: (requestsPerUnit ?? 0) !== 0,
    unitMultiplier: unitMultiplier !== undefined,
    countRejected: countRejected === true,
  })
  return [
    ...missing.map(path => ({
      path,
      message: `${path} is missing for the algorithm Concurrency`,
      allowed: `a whole number from 1 to ${memberFields[path].maximum}`,
    })),
    ...found.flatMap(([path, isGiven]) => {
      const message = `${path} has no meaning for the algorithm Concurrency`
      return isGiven ? [{ path, message, allowed: 'maxConcurrent and leaseSeconds instead' }] : []
    }),
  ]
}

/**
 * Finds a `requestsPerUnit` or `burst` that is too large for exact calculations with the window; see
 * `ticksPerSecond`.
 */
function checkProducts(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { algorithm = 'FixedWindow', requestsPerUnit = 0, burst = 0, unitMultiplier = 1 } = limit
  const unit = parseUnit(limit.unit)
  if (algorithm === 'FixedWindow' || isConcurrency(limit) || unit === undefined) return []
  const windowSeconds = unitSeconds[unit] * unitMultiplier
  return Object.entries({ requestsPerUnit, burst }).flatMap(([path, requests]) => {
    if (ticksPerSecond(requests, windowSeconds) !== undefined) return []
    const message = `${path} cannot be ${requests} for ${algorithm} with a window of ${windowSeconds} s`
    return [{ path, message, allowed: `at most ${findMostRequests(windowSeconds)}` }]
  })
}

function checkCalendar(calendar: CalendarAnchors, unitText: string): readonly LimitProblem[] {
  const { timeZone } = calendar
  const problems: LimitProblem[] = []
  const report = (path: string, message: string, allowed: string) =>
    void problems.push({ path, message, allowed })
  if (!isTimeZone(timeZone)) {
    const message = `unknown time zone '${timeZone}'`
    report('calendar.timeZone', message, 'a name of the IANA time zone database, such as Europe/Copenhagen')
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
  for (const name of anchors) {
    const units: readonly string[] = unitsOfAnchor(name)
    if (calendar[name] === undefined || units.includes(unit)) continue
    report(
      `calendar.${name}`,
      `${name} has no meaning for the unit ${unit}`,
      `the unit ${units.join(' or ')}`,
    )
  }
  return problems
}
