import { listNames, matchFields } from '@tollway/ratelimit/rules/fields.ts'
import { findRegexProblem } from '@tollway/ratelimit/rules/regex.ts'
import { describeFound } from './describe.ts'
import { problemIf } from './limit-rules.ts'
import { isFields, type PolicyRule, type SchemaProblem } from './schema.ts'

const kinds = listNames(matchFields.match.fields)
const kindsBesideCidr = kinds.filter(kind => kind !== 'cidr')
const prefixLengths = listNames(matchFields.groupBy.fields)
const hasMatch = 'self.?match.hasValue()'
const hasGroupBy = 'self.?groupBy.hasValue()'

const sharedByPattern: PolicyRule = {
  cel: {
    rule: "!has(self.shareThreshold) || !self.shareThreshold || has(self.match) || self.value.contains('*')",
    message: 'shareThreshold needs match, or a value with the wildcard *',
  },
  inPolicy: [
    `self.?shareThreshold.orValue(false) <= (true in [${hasMatch}, self.?value.orValue('').contains('*')])`,
  ],
  judge({ match, shareThreshold, value = '' }) {
    const shares =
      shareThreshold === true && match === undefined && typeof value === 'string' && !value.includes('*')
    const message = `true needs match, or a value with the wildcard *, not ${describeFound(value)}`
    return problemIf(shares, 'shareThreshold', message)
  },
}

const oneKindOfMatch: PolicyRule = {
  cel: {
    rule: `!has(self.match) || [${kinds.map(kind => `has(self.match.${kind})`).join(', ')}].exists_one(given, given)`,
    message: `match needs exactly one of ${kinds.join(', ')}`,
  },
  policyGuard: hasMatch,
  inPolicy: [`[${kinds.map(kind => `self.?match.?${kind}.hasValue()`).join(', ')}].exists_one(given, given)`],
  judge({ match }) {
    if (!isFields(match)) return []
    const given = kinds.filter(kind => isGiven(match[kind]))
    const found = given.length === 0 ? 'has none of its fields' : `has ${given.join(' and ')}`
    return problemIf(given.length !== 1, 'match', `${found}; exactly one of ${kinds.join(', ')} is allowed`)
  },
}

const noWildcardBesideMatch: PolicyRule = {
  cel: {
    rule: "!(has(self.match) || has(self.groupBy)) || !(self.key.contains('*') || self.value.contains('*'))",
    message: 'neither key nor value can contain a * beside match or groupBy; beside match, value is a name',
  },
  policyGuard: `true in [${hasMatch}, ${hasGroupBy}]`,
  inPolicy: ["!self.?key.orValue('').contains('*')", "!self.?value.orValue('').contains('*')"],
  judge({ key, value, match, groupBy }) {
    if (!isGiven(match) && !isGiven(groupBy)) return []
    const beside = isGiven(match) ? 'match' : 'groupBy'
    const report = (name: string, found: unknown, meaning: string) =>
      problemIf(
        typeof found === 'string' && found.includes('*'),
        name,
        `${describeFound(found)} cannot contain a * beside ${beside}${meaning}`,
      )
    const meaning = beside === 'match' ? '; there, it is only the name of the rule' : ''
    return [...report('key', key, ''), ...report('value', value, meaning)]
  },
}

const groupsOfAddresses: PolicyRule = {
  cel: {
    rule:
      '!has(self.groupBy) || (has(self.match) ? ' +
      `!(${kindsBesideCidr.map(kind => `has(self.match.${kind})`).join(' || ')}) : self.value == '')`,
    message: 'groupBy needs match.cidr, or neither match nor value',
  },
  policyGuard: hasGroupBy,
  inPolicy: [
    ...kindsBesideCidr.map(kind => `!self.?match.?${kind}.hasValue()`),
    `(self.?value.orValue('') != '') <= ${hasMatch}`,
  ],
  judge({ match, value = '', groupBy }) {
    if (!isGiven(groupBy)) return []
    const message = (beside: string) =>
      `is not allowed beside ${beside}; use match.cidr, or neither match nor value`
    if (!isFields(match)) return problemIf(value !== '', 'groupBy', message('value'))
    return kindsBesideCidr.flatMap(kind =>
      problemIf(isGiven(match[kind]), 'groupBy', message(`match.${kind}`)),
    )
  },
}

const oneWayToGroup: PolicyRule = {
  cel: {
    rule: '!has(self.groupBy) || !has(self.shareThreshold) || !self.shareThreshold',
    message: 'set either groupBy or shareThreshold, not both',
  },
  policyGuard: hasGroupBy,
  inPolicy: ['!self.?shareThreshold.orValue(false)'],
  judge: ({ groupBy, shareThreshold }) =>
    problemIf(
      isGiven(groupBy) && shareThreshold === true,
      'groupBy',
      'is not allowed beside shareThreshold; leave out one of the two',
    ),
}

const groupsHaveLength: PolicyRule = {
  cel: {
    rule: `!has(self.groupBy) || ${prefixLengths.map(name => `has(self.groupBy.${name})`).join(' || ')}`,
    message: `groupBy needs ${prefixLengths.join(', ')} or both`,
  },
  policyGuard: hasGroupBy,
  inPolicy: [`true in [${prefixLengths.map(name => `self.?groupBy.?${name}.hasValue()`).join(', ')}]`],
  judge: ({ groupBy }) =>
    problemIf(
      isFields(groupBy) && !prefixLengths.some(name => isGiven(groupBy[name])),
      'groupBy',
      `has no prefix length; set ${prefixLengths.join(', ')} or both`,
    ),
}

/** Rejects expressions that RE2 rejects. The error in the API server has the wrong part of the expression. */
const validRegex: PolicyRule = {
  cel: {
    rule: "!has(self.match) || !has(self.match.regex) || (''.matches(self.match.regex) ? true : true)",
    message: 'match.regex must be a regular expression in the syntax of RE2',
  },
  policyGuard: 'self.?match.?regex.hasValue()',
  failsInCel: true,
  inPolicy: ["''.matches(self.?match.?regex.orValue('')) in [true, false]"],
  judge({ match }): readonly SchemaProblem[] {
    const regex = isFields(match) ? match['regex'] : undefined
    const found = typeof regex === 'string' ? findRegexProblem(regex) : undefined
    return found === undefined
      ? []
      : [{ path: 'match.regex', message: `${found.problem}; allowed: ${found.allowed}` }]
  },
}

const isGiven = (value: unknown) => value !== undefined && value !== null

export const rulesOfMatch = [
  sharedByPattern,
  oneKindOfMatch,
  noWildcardBesideMatch,
  groupsOfAddresses,
  oneWayToGroup,
  groupsHaveLength,
  validRegex,
] as const
