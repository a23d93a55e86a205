import { type DomainTable, field, findRecord, none, textOf, topLevel, wordOf } from './domain-table.ts'

/**
 * Returns the record of the rule with the same keys and values at each level as a rule of another version of
 * the domain, or `none`.
 */
export function findSameRule(table: DomainTable, other: DomainTable, record: number): number {
  let level = topLevel
  let found = none
  for (const step of pathTo(other, record)) {
    if (level === 0) return none
    found = findInLevel(table, level, textOf(other, step, field.key), textOf(other, step, field.value))
    if (found === none) return none
    level = wordOf(table, found, field.below)
  }
  return found
}

/** Returns the records from the top to this one. */
function pathTo(table: DomainTable, record: number): readonly number[] {
  const path: number[] = []
  for (let at = record; at !== none; at = wordOf(table, at, field.parent)) path.unshift(at)
  return path
}

function findInLevel(table: DomainTable, level: number, key: string, value: string): number {
  const exact = findRecord(table, level, key, value)
  if (exact !== none) return exact
  return [findRecord(table, -level, key, ''), findRecord(table, -level, '', '')]
    .map(head => findInList(table, head, key, value))
    .reduce((found, other) => (found === none ? other : found), none)
}

function findInList(table: DomainTable, head: number, key: string, value: string): number {
  if (head === none) return none
  for (let rule = wordOf(table, head, field.next); rule !== none; rule = wordOf(table, rule, field.next)) {
    if (textOf(table, rule, field.key) === key && textOf(table, rule, field.value) === value) return rule
  }
  return none
}
