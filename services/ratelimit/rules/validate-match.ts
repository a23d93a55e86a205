import { parseNetwork } from './address.ts'
import type { Sibling } from './advisories.ts'
import {
  checkFields,
  type LimitProblem,
  listNames,
  type MatchKind,
  matchFields,
  maxPatterns,
  type RuleMatch,
} from './fields.ts'
import type { RateLimitRule } from './model.ts'
import { findRegexProblem, maxRegexesOfLevel } from './regex.ts'

const kinds = listNames(matchFields.match.fields)

/** Finds the problems of the fields `match` and `groupBy` of one rule. */
export function validateMatch(rule: RateLimitRule): readonly LimitProblem[] {
  const problems = [...checkFields(matchFields, rule)]
  if (problems.length > 0) return problems
  const { key, value, match, groupBy } = rule
  const report = (path: string, message: string, allowed: string) =>
    void problems.push({ path, message, allowed })
  if (key.includes('*')) {
    const beside = match === undefined ? 'groupBy' : 'match'
    report('key', `key cannot contain a * beside ${beside}`, 'a key without *')
  }
  if (match !== undefined) {
    if (value.includes('*')) {
      report(
        'value',
        'value is the name of the rule beside match, and cannot contain a *',
        'a name, or no value',
      )
    }
    const given = kinds.filter(kind => match[kind] !== undefined)
    if (given.length === 1) problems.push(...checkTexts(match))
    else {
      const found = given.length === 0 ? 'none of its fields' : given.join(' and ')
      report('match', `match has ${found}`, `exactly one of ${kinds.join(', ')}`)
    }
  }
  if (groupBy !== undefined) problems.push(...checkGroupBy(rule))
  return problems
}

function checkGroupBy({ value, match, groupBy, shareThreshold }: RateLimitRule): readonly LimitProblem[] {
  const report = (message: string, allowed: string) => [{ path: 'groupBy', message, allowed }]
  const allowed = 'match.cidr, or neither match nor value'
  const kind = match && kinds.find(one => match[one] !== undefined && one !== 'cidr')
  if (kind !== undefined) return report(`groupBy is not allowed beside match.${kind}`, allowed)
  if (match === undefined && value !== '') return report('groupBy is not allowed beside value', allowed)
  if (shareThreshold) return report('groupBy is not allowed beside shareThreshold', 'one of the two')
  if (Object.values(groupBy ?? {}).every(length => length === undefined)) {
    return report('groupBy has no prefix length', 'ipv4Prefix, ipv6Prefix or both')
  }
  return []
}

function checkTexts({ oneOf, cidr, regex }: RuleMatch): readonly LimitProblem[] {
  const problems: LimitProblem[] = []
  const checkList = (
    name: string,
    texts: readonly string[],
    identify: (text: string, index: number) => string,
  ) => {
    if (texts.length === 0) {
      problems.push({ path: `match.${name}`, message: `${name} is empty`, allowed: 'at least one text' })
    }
    const seen = new Map<string, number>()
    for (const [index, text] of texts.entries()) {
      const id = identify(text, index)
      const first = seen.get(id)
      if (first === undefined) seen.set(id, index)
      else {
        const message = `${name} has '${text}' twice`
        problems.push({
          path: `match.${name}[${index}]`,
          message,
          allowed: `once; it is also at ${name}[${first}]`,
        })
      }
    }
  }
  if (oneOf !== undefined) checkList('oneOf', oneOf, text => text)
  if (cidr !== undefined) {
    checkList('cidr', cidr, (text, index) => {
      const network = parseNetwork(text)
      if ('bits' in network) return network.bits
      problems.push({ path: `match.cidr[${index}]`, message: network.problem, allowed: network.allowed })
      return text
    })
  }
  const invalid = regex === undefined ? undefined : findRegexProblem(regex)
  if (invalid !== undefined)
    problems.push({ path: 'match.regex', message: invalid.problem, allowed: invalid.allowed })
  return problems
}

function identifyNetwork(text: string): string {
  const network = parseNetwork(text)
  return 'bits' in network ? network.bits : text
}

/** The problems of a rule that other rules of its level cause. */
interface SiblingProblems extends Sibling {
  readonly problems: readonly LimitProblem[]
}

/** Finds rules of one level that never match because another one has the same pattern, and too many patterns. */
export function validateMatches(siblings: readonly Sibling[]): readonly SiblingProblems[] {
  const exactValues = new Map<string, Sibling>()
  for (const sibling of siblings) {
    const { key, value, match } = sibling.descriptor
    if (match === undefined) exactValues.set(identify(key, value), sibling)
  }
  const patternsBefore = new Map<string, Sibling>()
  const onLevel = { patterns: 0, regexes: 0 }
  return siblings.flatMap(sibling => {
    const { key, match } = sibling.descriptor
    if (match === undefined) return []
    const problems: LimitProblem[] = []
    const report = (path: string, message: string, allowed: string) =>
      void problems.push({ path, message, allowed })
    const once = ({ source, path }: Sibling) => `once; it is also at ${source}, ${path}`
    const { exact, oneOf, cidr, regex } = match
    const equal = exact === undefined ? undefined : exactValues.get(identify(key, exact))
    if (equal !== undefined) {
      report('match.exact', `'${exact}' never matches, because it is the value of another rule`, once(equal))
    }
    for (const { kind, text, path } of listUnique(match)) {
      const id = `${kind} ${identify(key, kind === 'cidr' ? identifyNetwork(text) : text)}`
      const first = patternsBefore.get(id)
      if (first === undefined) patternsBefore.set(id, sibling)
      else if (first !== sibling) {
        report(path, `'${text}' never matches, because another rule has the same ${kind}`, once(first))
      }
    }
    const before = { ...onLevel }
    onLevel.patterns += regex === undefined ? (oneOf ?? cidr ?? [exact]).length : 0
    onLevel.regexes += regex === undefined ? 0 : 1
    if (before.patterns <= maxPatterns && onLevel.patterns > maxPatterns) {
      report('match', 'the rules of the level have too many patterns', `at most ${maxPatterns} together`)
    }
    if (before.regexes === maxRegexesOfLevel && regex !== undefined) {
      report('match.regex', 'the level has too many regular expressions', `at most ${maxRegexesOfLevel}`)
    }
    return problems.length === 0 ? [] : [{ ...sibling, problems }]
  })
}

const identify = (key: string, text: string) => `${key.length} ${key} ${text}`

/** Lists the texts that only one rule of a level can have. Of the texts in `oneOf`, the first rule gets each. */
function listUnique({
  oneOf: _,
  cidr = [],
  ...single
}: RuleMatch): readonly { readonly kind: MatchKind; readonly text: string; readonly path: string }[] {
  return [
    ...cidr.map((text, at) => ({ kind: 'cidr' as const, text, path: `match.cidr[${at}]` })),
    ...listNames(single).map(kind => ({ kind, text: single[kind] ?? '', path: `match.${kind}` })),
  ]
}
