import { describeFound } from '../describe.ts'
import type { PolicyRule } from '../field-rule.ts'
import { type Fields, isFields, type Problem } from '../schema.ts'
import { anchorUnits, calendarUnits, limitBounds, type Unit, units } from './limit-bounds.ts'

export function problemIf(wrong: boolean, path: string, message: string): readonly Problem[] {
  return wrong ? [{ path, message }] : []
}

/** Rules for the admission policy use optional values, and `a <= b` for "a implies b"; see `PolicyRule`. */
const isUnlimited = 'self.?unlimited.orValue(false)'

const unitAndRequests = ['unit', 'requestsPerUnit'] as const

const limitedOrUnlimited: PolicyRule = {
  cel: {
    rule:
      'has(self.unlimited) && self.unlimited ? !has(self.unit) && !has(self.requestsPerUnit) ' +
      ': has(self.unit) && has(self.requestsPerUnit)',
    message: 'set either unlimited to true, or both unit and requestsPerUnit',
  },
  inPolicy: unitAndRequests.map(name => `self.hasValue() <= (${isUnlimited} != self.?${name}.hasValue())`),
  judge(rateLimit) {
    const { unlimited } = rateLimit
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
    const allowed = {
      unit: `one of ${units.join(', ')}`,
      requestsPerUnit: `a whole number from 0 to ${limitBounds.maxRequestsPerUnit}`,
    }
    return unitAndRequests.flatMap(name =>
      problemIf(
        rateLimit[name] === undefined,
        name,
        `is missing; expected ${allowed[name]}, unless unlimited is true`,
      ),
    )
  },
}

const replacesOthers: PolicyRule = {
  cel: {
    rule: '!has(self.name) || !has(self.replaces) || self.replaces.all(replaced, replaced.name != self.name)',
    message: 'replaces names the rule itself; name other rules only',
  },
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

const fieldsOfLimited = ['unitMultiplier', 'calendar'] as const

const nothingBesideUnlimited: PolicyRule = {
  cel: {
    rule:
      '!has(self.unlimited) || !self.unlimited || ' +
      `!(${fieldsOfLimited.map(name => `has(self.${name})`).join(' || ')})`,
    message: `unlimited: true excludes ${fieldsOfLimited.join(', ')}`,
  },
  inPolicy: fieldsOfLimited.map(name => `${isUnlimited} <= !self.?${name}.hasValue()`),
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

/** Empty if it is left out, which is the problem of another rule. */
const unitInCel = "self.?unit.orValue('')"

const calendarOfDays: PolicyRule = {
  cel: {
    rule: `!has(self.calendar) || !has(self.unit) || self.unit in ${listInCel(calendarUnits)}`,
    message: `calendar needs a unit of ${calendarUnits.join(', ')}`,
  },
  inPolicy: [`self.?calendar.hasValue() <= (${unitInCel} in ${listInCel(['', ...calendarUnits])})`],
  judge({ calendar, unit }) {
    if (calendar === undefined || !isUnit(unit)) return []
    return problemIf(
      !isOneOf(calendarUnits, unit),
      'calendar',
      `needs a unit of ${calendarUnits.join(', ')}, not ${unit}`,
    )
  },
}

const anchors = Object.entries(anchorUnits)

function describeAnchor([name, allowed]: (typeof anchors)[number]): string {
  return `${name} is for ${allowed.join(' and ')}`
}

const anchorsOfUnit: PolicyRule = {
  cel: {
    rule: `!has(self.calendar) || !has(self.unit) || (${anchors
      .map(([name, allowed]) => `(!has(self.calendar.${name}) || self.unit in ${listInCel(allowed)})`)
      .join(' && ')})`,
    message: `in calendar, ${anchors.map(describeAnchor).join(', ')}`,
  },
  inPolicy: anchors.map(
    ([name, allowed]) =>
      `self.?calendar.?${name}.hasValue() <= (${unitInCel} in ${listInCel(['', ...allowed])})`,
  ),
  judge({ calendar, unit }) {
    if (!isFields(calendar) || !isUnit(unit) || !isOneOf(calendarUnits, unit)) return []
    return anchors.flatMap(([name, allowed]) =>
      problemIf(
        (calendar[name] ?? undefined) !== undefined && !isOneOf(allowed, unit),
        `calendar.${name}`,
        `${describeFound(calendar[name])} needs the unit ${allowed.join(' or ')}, not ${unit}`,
      ),
    )
  },
}

/** Evaluation fails for an unknown name, and the API server then puts the name before the message. */
const knownTimeZone: PolicyRule = {
  cel: {
    rule:
      '!has(self.calendar) || !has(self.calendar.timeZone) || ' +
      "timestamp('2000-01-01T00:00:00Z').getHours(self.calendar.timeZone) >= 0",
    message: 'calendar.timeZone is a name of the IANA time zone database, such as Europe/Copenhagen',
  },
  inPolicy: ["timestamp('2000-01-01T00:00:00Z').getHours(self.?calendar.?timeZone.orValue('UTC')) >= 0"],
  judge({ calendar }) {
    const timeZone = isFields(calendar) ? calendar['timeZone'] : undefined
    if (typeof timeZone !== 'string') return []
    return problemIf(
      !isTimeZone(timeZone),
      'calendar.timeZone',
      `${describeFound(timeZone)} is no name of the IANA time zone database, such as Europe/Copenhagen`,
    )
  },
}

/** The rules of `rateLimit`. */
export const rulesOfRateLimit: readonly PolicyRule[] = [
  limitedOrUnlimited,
  replacesOthers,
  nothingBesideUnlimited,
  calendarOfDays,
  anchorsOfUnit,
  knownTimeZone,
]

function listInCel(words: readonly string[]): string {
  return `[${words.map(word => `'${word}'`).join(', ')}]`
}

function isOneOf<Word extends string>(words: readonly Word[], value: unknown): value is Word {
  return words.some(word => word === value)
}

function isUnit(value: unknown): value is Unit {
  return isOneOf(units, value)
}

/** Intl accepts the names of the IANA database in any case. The pattern of the field excludes offsets. */
function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name })
    return true
  } catch {
    return false
  }
}
