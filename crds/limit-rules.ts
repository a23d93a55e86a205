import { calendarUnits } from '@tollway/ratelimit/rules/calendar.ts'
import {
  algorithms,
  algorithmsOfQuota,
  fieldsOfLimited,
  isConcurrency,
  leasableAlgorithms,
  limitFields,
  maxRequestsPerUnit,
} from '@tollway/ratelimit/rules/fields.ts'
import { endOfExactProducts, findMostRequests } from '@tollway/ratelimit/rules/ticks.ts'
import { isTimeZone } from '@tollway/ratelimit/rules/time-zone.ts'
import { anchors, type Unit, unitSeconds, units, unitsOfAnchor } from '@tollway/ratelimit/rules/units.ts'
import { describeFound } from './describe.ts'
import { type Fields, isFields, type PolicyRule, type SchemaProblem } from './schema.ts'

export function problemIf(wrong: boolean, path: string, message: string): readonly SchemaProblem[] {
  return wrong ? [{ path, message }] : []
}

/**
 * Whether a limit is unlimited, for expressions in the admission policy: there, `self` may be an optional
 * value, and `a <= b` means "a implies b" (see `PolicyRule`).
 */
const isUnlimited = 'self.?unlimited.orValue(false)'

const unitAndRequests = ['unit', 'requestsPerUnit'] as const
const fieldsOfConcurrency = ['maxConcurrent', 'leaseSeconds'] as const
/** The fields that `Concurrency` excludes, except those that need another algorithm. */
const excludedByConcurrency = [...unitAndRequests, 'unitMultiplier', 'countRejected'] as const

const concurrencyInDefinition = "has(self.algorithm) && self.algorithm == 'Concurrency'"
const concurrencyInCel = "self.?algorithm.orValue('FixedWindow') == 'Concurrency'"
const hasConcurrencyField = fieldsOfConcurrency.map(name => `self.?${name}.hasValue()`).join(' || ')
const hasAll = (names: readonly string[]) => names.map(name => `has(self.${name})`).join(' && ')
const hasNone = (names: readonly string[]) => names.map(name => `!has(self.${name})`).join(' && ')

/** The fields of `Concurrency`, which are there with this algorithm, and not with any other one. */
const concurrencyAlone: PolicyRule = {
  cel: {
    rule:
      `${concurrencyInDefinition} ? ${hasAll(fieldsOfConcurrency)} && ${hasNone(excludedByConcurrency)} ` +
      `: ${hasNone(fieldsOfConcurrency)}`,
    message:
      `algorithm: Concurrency needs ${fieldsOfConcurrency.join(' and ')}, which no other algorithm has, and ` +
      `excludes ${excludedByConcurrency.join(', ')}`,
  },
  policyGuard: `${hasConcurrencyField} || ${concurrencyInCel}`,
  inPolicy: [
    concurrencyInCel,
    ...fieldsOfConcurrency.map(name => `self.?${name}.hasValue()`),
    ...excludedByConcurrency.map(name => `!self.?${name}.hasValue()`),
  ],
  judge(limit) {
    const { algorithm = 'FixedWindow', unlimited } = limit
    if (unlimited === true || !isOneOf(algorithms, algorithm)) return []
    if (!isConcurrency(limit)) {
      return fieldsOfConcurrency.flatMap(name =>
        problemIf(
          limit[name] !== undefined,
          name,
          `${describeFound(limit[name])} needs algorithm: Concurrency, not ${algorithm}`,
        ),
      )
    }
    return [
      ...fieldsOfConcurrency.flatMap(name => {
        const allowed = `a whole number from 1 to ${limitFields[name].maximum}`
        const message = `is missing; expected ${allowed}, with algorithm: Concurrency`
        return problemIf(limit[name] === undefined, name, message)
      }),
      ...excludedByConcurrency.flatMap(name =>
        problemIf(
          limit[name] !== undefined,
          name,
          `${describeFound(limit[name])} is not allowed with algorithm: Concurrency; leave it out`,
        ),
      ),
    ]
  },
}

const windowOfMember: PolicyRule = {
  cel: {
    rule: `(${concurrencyInDefinition}) || ${hasAll(unitAndRequests)}`,
    message: 'set both unit and requestsPerUnit, unless algorithm is Concurrency',
  },
  // The fields are first, because most members have them, and the cost of the policy is bounded.
  inPolicy: [`(self.?unit.hasValue() && self.?requestsPerUnit.hasValue()) || ${concurrencyInCel}`],
  judge: limit => (isConcurrency(limit) ? [] : findMissing(limit, 'algorithm is Concurrency')),
}

function findMissing(limit: Fields, unless: string): readonly SchemaProblem[] {
  const allowed = {
    unit: `one of ${units.join(', ')}`,
    requestsPerUnit: `a whole number from 0 to ${maxRequestsPerUnit}`,
  }
  return unitAndRequests.flatMap(name =>
    problemIf(limit[name] === undefined, name, `is missing; expected ${allowed[name]}, unless ${unless}`),
  )
}

const limitedOrUnlimited: PolicyRule = {
  cel: {
    rule:
      'has(self.unlimited) && self.unlimited ? !has(self.unit) && !has(self.requestsPerUnit) ' +
      `: (${concurrencyInDefinition}) || (has(self.unit) && has(self.requestsPerUnit))`,
    message: 'set either unlimited to true, or both unit and requestsPerUnit, or algorithm: Concurrency',
  },
  inPolicy: unitAndRequests.map(
    name => `self.hasValue() <= ((${isUnlimited} || ${concurrencyInCel}) != self.?${name}.hasValue())`,
  ),
  judge(rateLimit) {
    const { unlimited } = rateLimit
    if (isConcurrency(rateLimit) && unlimited !== true) return []
    if (unlimited === true) {
      return unitAndRequests.flatMap(name =>
        problemIf(
          rateLimit[name] !== undefined,
          name,
          `${describeFound(rateLimit[name])} is not allowed with unlimited: true; leave out one of the two`,
        ),
      )
    }
    if (unlimited !== undefined && unlimited !== false) return []
    return findMissing(rateLimit, 'unlimited is true')
  },
}

const replacesOthers: PolicyRule = {
  cel: {
    rule: '!has(self.name) || !has(self.replaces) || self.replaces.all(replaced, replaced.name != self.name)',
    message: 'replaces names the rule itself; name other rules only',
  },
  policyGuard: 'self.?replaces.hasValue()',
  inPolicy: ["self.?replaces.orValue([]).all(replaced, replaced.name != self.?name.orValue(''))"],
  judge({ name, replaces }) {
    if (typeof name !== 'string' || name === '' || !Array.isArray(replaces)) return []
    return replaces.flatMap((replaced: Fields | null, index) =>
      problemIf(
        replaced?.['name'] === name,
        `replaces[${index}].name`,
        `${describeFound(name)} is the name of the rule itself; use the names of other rules`,
      ),
    )
  },
}

const nothingBesideUnlimited: PolicyRule = {
  cel: {
    rule:
      '!has(self.unlimited) || !self.unlimited || ' +
      `!(${fieldsOfLimited.map(name => `has(self.${name})`).join(' || ')})`,
    message: `unlimited: true excludes ${fieldsOfLimited.join(', ')}`,
  },
  policyGuard: isUnlimited,
  inPolicy: fieldsOfLimited.map(name => `!self.?${name}.hasValue()`),
  judge(rateLimit) {
    if (rateLimit['unlimited'] !== true) return []
    return fieldsOfLimited.flatMap(name =>
      problemIf(
        rateLimit[name] !== undefined,
        name,
        `${describeFound(rateLimit[name])} is not allowed with unlimited: true; leave out one of the two`,
      ),
    )
  },
}

const algorithmInCel = "self.?algorithm.orValue('FixedWindow')"
const hasCalendar = 'self.?calendar.hasValue()'

const burstOfTokenBucket: PolicyRule = {
  cel: {
    rule: "!has(self.burst) || (has(self.algorithm) && self.algorithm == 'TokenBucket')",
    message: 'burst needs algorithm: TokenBucket',
  },
  policyGuard: 'self.?burst.hasValue()',
  inPolicy: [`${algorithmInCel} == 'TokenBucket'`],
  judge({ burst, algorithm = 'FixedWindow', unlimited }) {
    if (burst === undefined || unlimited === true || !isOneOf(algorithms, algorithm)) return []
    return problemIf(
      algorithm !== 'TokenBucket',
      'burst',
      `${describeFound(burst)} needs algorithm: TokenBucket, not ${algorithm}`,
    )
  },
}

const calendarOfFixedWindow: PolicyRule = {
  cel: {
    rule: "!has(self.calendar) || !has(self.algorithm) || self.algorithm == 'FixedWindow'",
    message: 'calendar needs algorithm: FixedWindow',
  },
  policyGuard: hasCalendar,
  inPolicy: [`${algorithmInCel} == 'FixedWindow'`],
  judge({ calendar, algorithm = 'FixedWindow', unlimited }) {
    if (calendar === undefined || unlimited === true || !isOneOf(algorithms, algorithm)) return []
    const message = `needs algorithm: FixedWindow, not ${algorithm}`
    return problemIf(algorithm !== 'FixedWindow', 'calendar', message)
  },
}

const leasableInCel = listInCel(leasableAlgorithms)
const leasableNames = leasableAlgorithms.join(' or ')

const leasableCounting: PolicyRule = {
  cel: {
    rule:
      "!has(self.counting) || self.counting != 'Leased' || " +
      `((!has(self.algorithm) || self.algorithm in ${leasableInCel}) && ` +
      '!(has(self.countRejected) && self.countRejected))',
    message: `counting: Leased needs algorithm: ${leasableNames}, without countRejected`,
  },
  policyGuard: "self.?counting.orValue('') == 'Leased'",
  inPolicy: [`${algorithmInCel} in ${leasableInCel}`, '!self.?countRejected.orValue(false)'],
  judge({ counting, algorithm = 'FixedWindow', countRejected, unlimited }) {
    if (counting !== 'Leased' || unlimited === true || !isOneOf(algorithms, algorithm)) return []
    return [
      ...problemIf(
        !leasableAlgorithms.includes(algorithm),
        'counting',
        `"Leased" needs algorithm: ${leasableNames}, not ${algorithm}`,
      ),
      ...problemIf(countRejected === true, 'counting', '"Leased" is not allowed with countRejected: true'),
    ]
  },
}

const secondsInCel = `{${Object.entries(unitSeconds)
  .map(([unit, seconds]) => `'${unit}': ${seconds}`)
  .join(', ')}}`

/**
 * Returns an expression for the largest exact number of requests in a window. It divides, because a product
 * could exceed 64 bits.
 */
function mostRequestsInCel(unit: string, unitMultiplier: string): string {
  return `${endOfExactProducts - 1} / (${secondsInCel}[${unit}] * ${unitMultiplier})`
}

const exactProducts: PolicyRule = {
  cel: {
    rule:
      "!has(self.algorithm) || self.algorithm == 'FixedWindow' || !has(self.unit) || " +
      '[has(self.requestsPerUnit) ? self.requestsPerUnit : 0, has(self.burst) ? self.burst : 0].max() <= ' +
      mostRequestsInCel('self.unit', '(has(self.unitMultiplier) ? self.unitMultiplier : 1)'),
    message:
      'with SlidingWindow and TokenBucket, requestsPerUnit and burst times the seconds of the window must be ' +
      `below 2^52, ${endOfExactProducts}`,
  },
  policyGuard: `${algorithmInCel} != 'FixedWindow'`,
  inPolicy: [
    '[self.?requestsPerUnit.orValue(0), self.?burst.orValue(0)].max() <= ' +
      mostRequestsInCel("self.?unit.orValue('second')", 'self.?unitMultiplier.orValue(1)'),
  ],
  judge(limit) {
    const { algorithm, unit, unitMultiplier = 1 } = limit
    if (!isOneOf(algorithms, algorithm) || algorithm === 'FixedWindow' || !isUnit(unit)) return []
    if (typeof unitMultiplier !== 'number' || !(unitMultiplier >= 1)) return []
    const windowSeconds = unitSeconds[unit] * unitMultiplier
    const most = findMostRequests(windowSeconds)
    return ['requestsPerUnit', 'burst'].flatMap(name => {
      const count = limit[name]
      return problemIf(
        typeof count === 'number' && count <= maxRequestsPerUnit && count > most,
        name,
        `${count} is too large for ${algorithm} with a window of ${windowSeconds} s; at most ${most} is allowed`,
      )
    })
  },
}

/** The unit of the limit; empty if it is left out, which another rule reports. */
const unitInCel = "self.?unit.orValue('')"

const calendarOfDays: PolicyRule = {
  cel: {
    rule: `!has(self.calendar) || !has(self.unit) || self.unit in ${listInCel(calendarUnits)}`,
    message: `calendar needs a unit of ${calendarUnits.join(', ')}`,
  },
  policyGuard: hasCalendar,
  inPolicy: [`${unitInCel} in ${listInCel(['', ...calendarUnits])}`],
  judge({ calendar, unit }) {
    if (calendar === undefined || !isUnit(unit)) return []
    return problemIf(
      !isOneOf(calendarUnits, unit),
      'calendar',
      `needs a unit of ${calendarUnits.join(', ')}, not ${unit}`,
    )
  },
}

const unitsOfAnchors = anchors.map(name => [name, unitsOfAnchor(name)] as const)

function describeAnchor([name, allowed]: (typeof unitsOfAnchors)[number]): string {
  return `${name} is for ${allowed.join(' and ')}`
}

const anchorsFitUnit: PolicyRule = {
  cel: {
    rule: `!has(self.calendar) || !has(self.unit) || (${unitsOfAnchors
      .map(([name, allowed]) => `(!has(self.calendar.${name}) || self.unit in ${listInCel(allowed)})`)
      .join(' && ')})`,
    message: `in calendar, ${unitsOfAnchors.map(describeAnchor).join(', ')}`,
  },
  policyGuard: hasCalendar,
  inPolicy: unitsOfAnchors.map(
    ([name, allowed]) =>
      `self.?calendar.?${name}.hasValue() <= (${unitInCel} in ${listInCel(['', ...allowed])})`,
  ),
  judge({ calendar, unit }) {
    if (!isFields(calendar) || !isUnit(unit) || !isOneOf(calendarUnits, unit)) return []
    return unitsOfAnchors.flatMap(([name, allowed]) =>
      problemIf(
        (calendar[name] ?? undefined) !== undefined && !isOneOf(allowed, unit),
        `calendar.${name}`,
        `${describeFound(calendar[name])} needs the unit ${allowed.join(' or ')}, not ${unit}`,
      ),
    )
  },
}

/** Rejects unknown time zones. The error in the API server has the name. */
const knownTimeZone: PolicyRule = {
  cel: {
    rule:
      '!has(self.calendar) || !has(self.calendar.timeZone) || ' +
      "timestamp('2000-01-01T00:00:00Z').getHours(self.calendar.timeZone) >= 0",
    message: 'calendar.timeZone must be a name of the IANA time zone database, such as Europe/Copenhagen',
  },
  policyGuard: hasCalendar,
  failsInCel: true,
  inPolicy: ["timestamp('2000-01-01T00:00:00Z').getHours(self.?calendar.?timeZone.orValue('UTC')) >= 0"],
  judge({ calendar }) {
    const timeZone = isFields(calendar) ? calendar['timeZone'] : undefined
    // Offsets such as +01:00 are reported by the pattern of the field.
    if (typeof timeZone !== 'string' || /^[+-]/.test(timeZone)) return []
    return problemIf(
      !isTimeZone(timeZone),
      'calendar.timeZone',
      `${describeFound(timeZone)} is not a name of the IANA time zone database, such as Europe/Copenhagen`,
    )
  },
}

const quotaInCel = "self.?delivery.orValue('Calls') == 'Quota'"
const algorithmsOfQuotaInCel = listInCel(algorithmsOfQuota)
const namesOfQuota = algorithmsOfQuota.join(' or ')

/** A share of a limit is a token bucket of at least one token a second. */
const quotaOfSeconds: PolicyRule = {
  cel: {
    rule:
      "!has(self.delivery) || self.delivery == 'Calls' || (has(self.unit) && has(self.requestsPerUnit) && " +
      `!has(self.calendar) && (!has(self.algorithm) || self.algorithm in ${algorithmsOfQuotaInCel}) && ` +
      `self.requestsPerUnit >= ${secondsInCel}[self.unit] * (has(self.unitMultiplier) ? self.unitMultiplier : 1))`,
    message:
      `delivery: Quota needs the algorithm ${namesOfQuota} without a calendar, and at least one ` +
      'request a second',
  },
  policyGuard: quotaInCel,
  inPolicy: [
    `${algorithmInCel} in ${algorithmsOfQuotaInCel}`,
    `!${hasCalendar}`,
    'self.?requestsPerUnit.orValue(0) >= self.?unitMultiplier.orValue(1) * ' +
      `${secondsInCel}[self.?unit.orValue('second')]`,
  ],
  judge(limit) {
    const { delivery, algorithm = 'FixedWindow', calendar, unlimited } = limit
    if (delivery !== 'Quota' || unlimited === true || !isOneOf(algorithms, algorithm)) return []
    const needs = (what: string) => problemIf(true, 'delivery', `"Quota" needs ${what}`)
    if (!algorithmsOfQuota.includes(algorithm)) {
      return needs(`algorithm: ${namesOfQuota}, not ${algorithm}`)
    }
    if (calendar !== undefined) return needs('a limit without a calendar')
    const { unit, requestsPerUnit, unitMultiplier = 1 } = limit
    if (!isUnit(unit) || typeof requestsPerUnit !== 'number' || typeof unitMultiplier !== 'number') return []
    const windowSeconds = unitSeconds[unit] * unitMultiplier
    if (requestsPerUnit >= windowSeconds) return []
    return needs(
      `at least one request a second: requestsPerUnit of ${windowSeconds} or more, not ${requestsPerUnit}`,
    )
  },
}

const limitedMember: PolicyRule = {
  cel: {
    rule: '!has(self.unlimited) || !self.unlimited',
    message: 'unlimited is not allowed inside limits; use rateLimit for an unlimited rule',
  },
  inPolicy: [`!${isUnlimited}`],
  judge: ({ unlimited }) =>
    problemIf(
      unlimited === true,
      'unlimited',
      'true is not allowed inside limits; use rateLimit for an unlimited rule',
    ),
}

const commonRules = [
  concurrencyAlone,
  burstOfTokenBucket,
  calendarOfFixedWindow,
  leasableCounting,
  exactProducts,
  calendarOfDays,
  anchorsFitUnit,
  knownTimeZone,
] as const

export const rulesOfRateLimit: readonly PolicyRule[] = [
  limitedOrUnlimited,
  replacesOthers,
  nothingBesideUnlimited,
  ...commonRules,
  quotaOfSeconds,
]

/** The rules of a member of `limits` that both the definition and the admission policy have. */
export const rulesOfMember: readonly PolicyRule[] = [limitedMember, windowOfMember, ...commonRules]

/**
 * The rules of a member of `limits` that only the admission policy has: with them, the definition would
 * exceed the CEL cost that an API server allows.
 */
export const costlyRulesOfMember: readonly PolicyRule[] = [replacesOthers]

function listInCel(words: readonly string[]): string {
  return `[${words.map(word => `'${word}'`).join(', ')}]`
}

function isOneOf<Word extends string>(words: readonly Word[], value: unknown): value is Word {
  return words.some(word => word === value)
}

function isUnit(value: unknown): value is Unit {
  return isOneOf(units, value)
}
