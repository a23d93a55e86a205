import {
  type DomainTable,
  field,
  findRecord,
  hasFlag,
  none,
  readText,
  readWord,
  recordCount,
  ruleFlag,
  topLevel,
} from './domain-table.ts'

/**
 * Returns a function that takes a record of `other`, which is another version of the domain, and returns the
 * record of the same rule in `table`, or `none`. Rules are the same if all levels have equal keys and values.
 */
export function createRuleFinder(table: DomainTable, other: DomainTable): (record: number) => number {
  const wildcardLists = new Map<number, ReadonlyMap<string, number>>()
  const matches = indexMatches(table)

  function findWildcard(head: number, key: string, value: string): number {
    if (head === none) return none
    const list = wildcardLists.get(head) ?? indexWildcards(table, head)
    wildcardLists.set(head, list)
    return list.get(joinUniquely(key, value)) ?? none
  }

  function findInLevel(level: number, key: string, value: string): number {
    const matching = matches.get(`${level} ${joinUniquely(key, value)}`)
    if (matching !== undefined) return matching
    const exact = findRecord(table, level, key, value)
    if (exact !== none && hasFlag(table, exact, ruleFlag.alias)) return none
    if (exact !== none || !(key.includes('*') || value.includes('*'))) return exact
    const inValue = findWildcard(findRecord(table, -level, key, ''), key, value)
    return inValue === none ? findWildcard(findRecord(table, -level, '', ''), key, value) : inValue
  }

  return record => {
    let level = topLevel
    let found = none
    for (const step of pathTo(other, record)) {
      if (level === 0) return none
      found = findInLevel(level, readText(other, step, field.key), readText(other, step, field.value))
      if (found === none) return none
      level = readWord(table, found, field.below)
    }
    return found
  }
}

/** Returns the records of rules with `match`, which a search by key and value does not find. */
function indexMatches(table: DomainTable): ReadonlyMap<string, number> {
  const records = new Map<string, number>()
  if (!table.hasMatches) return records
  for (let rule = 0; rule < recordCount(table); rule++) {
    if (!hasFlag(table, rule, ruleFlag.matches)) continue
    const name = joinUniquely(readText(table, rule, field.key), readText(table, rule, field.value))
    records.set(`${readWord(table, rule, field.level)} ${name}`, rule)
  }
  return records
}

/** Returns the records from the top-level rule down to this one. */
function pathTo(table: DomainTable, record: number): readonly number[] {
  const path: number[] = []
  for (let at = record; at !== none; at = readWord(table, at, field.parent)) path.unshift(at)
  return path
}

/** Returns the records in the list of wildcard rules with this head, by key and value. */
function indexWildcards(table: DomainTable, head: number): ReadonlyMap<string, number> {
  const records = new Map<string, number>()
  for (
    let rule = readWord(table, head, field.next);
    rule !== none;
    rule = readWord(table, rule, field.next)
  ) {
    records.set(joinUniquely(readText(table, rule, field.key), readText(table, rule, field.value)), rule)
  }
  return records
}

const joinUniquely = (key: string, value: string) => `${key.length}:${key}${value}`
