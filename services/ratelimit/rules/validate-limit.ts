import { calendarUnits } from './calendar.ts'
import {
  algorithmsOfQuota,
  type CalendarAnchors,
  checkFields,
  fieldsOfLimited,
  isConcurrency,
  type LimitProblem,
  leasableAlgorithms,
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
  const {
    algorithm = 'FixedWindow',
    burst,
    calendar,
    maxConcurrent,
    leaseSeconds,
    counting,
    delivery,
  } = limit
  const others = [burst, calendar, maxConcurrent, leaseSeconds, counting, delivery]
  if (algorithm === 'FixedWindow' && others.every(field => field === undefined)) return problems
  const isInvalid = (path: string) => problems.some(problem => problem.path === path)
  const hasAlgorithm = !isInvalid('algorithm')
  const hasRate = hasAlgorithm && !isInvalid('unitMultiplier')
  return [
    ...problems,
    ...(hasAlgorithm ? [...checkAlgorithm(limit), ...checkConcurrency(limit), ...checkCounting(limit)] : []),
    ...(hasRate ? checkProducts(limit) : []),
    ...(calendar === undefined ? [] : checkCalendar(calendar, limit.unit)),
    ...(hasRate && delivery === 'Quota' ? checkQuota(limit) : []),
  ]
}

/**
 * Finds the problems of a list of limits as a whole: a wrong number of members, and members that are
 * unlimited or shared among proxies, which know one bucket for a request.
 */
export function validateLimits(limits: readonly RateLimitPolicy[]): readonly LimitProblem[] {
  const problems = limits.flatMap(({ unlimited, delivery }, index) => {
    const message = (what: string) => `${what} is not allowed inside limits`
    const allowed = 'a limit, or rateLimit for an unlimited rule'
    return [
      ...(unlimited ? [{ path: `[${index}].unlimited`, message: message('unlimited'), allowed }] : []),
      ...(delivery === 'Quota'
        ? [{ path: `[${index}].delivery`, message: message('delivery: Quota'), allowed: 'Calls' }]
        : []),
    ]
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

const whyNotLeased = {
  SlidingWindow: 'which counts each request at its own time',
  Concurrency: 'whose requests give back what they hold',
}

function checkCounting({ counting, algorithm = 'FixedWindow', countRejected }: RateLimitPolicy) {
  const problems: LimitProblem[] = []
  if (counting !== 'Leased') return problems
  if (algorithm === 'SlidingWindow' || algorithm === 'Concurrency') {
    const message = `counting cannot be Leased for the algorithm ${algorithm}, ${whyNotLeased[algorithm]}`
    problems.push({ path: 'counting', message, allowed: `the algorithm ${leasableAlgorithms.join(' or ')}` })
  }
  if (countRejected) {
    const message = 'counting cannot be Leased with countRejected: rejected requests ask no counter'
    problems.push({ path: 'counting', message, allowed: 'Exact, or countRejected left out' })
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

/** Finds what keeps a limit from being shared among proxies as token buckets. */
function checkQuota(limit: RateLimitPolicy): readonly LimitProblem[] {
  const { algorithm = 'FixedWindow', calendar, requestsPerUnit = 0, unitMultiplier = 1 } = limit
  const problem = (message: string, allowed: string) => [{ path: 'delivery', message, allowed }]
  if (!algorithmsOfQuota.includes(algorithm)) {
    const allowed = `the algorithm ${algorithmsOfQuota.join(' or ')}`
    return problem(`delivery: Quota has no meaning for the algorithm ${algorithm}`, allowed)
  }
  if (calendar !== undefined) return problem('delivery: Quota has no meaning with a calendar', 'no calendar')
  const unit = parseUnit(limit.unit)
  if (unit === undefined) return []
  const windowSeconds = unitSeconds[unit] * unitMultiplier
  if (requestsPerUnit >= windowSeconds) return []
  const message = `delivery: Quota cannot share ${requestsPerUnit} requests in ${windowSeconds} s`
  return problem(message, `at least ${windowSeconds}, which is one a second`)
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
