import { printable } from '../render.ts'
import { formatFinding } from '../validate-folder.ts'
import type { Differences } from './compare-resources.ts'

const signs = { create: '+', change: '~', delete: '-' } as const
const verbs = { create: 'is created', change: 'changes', delete: 'is deleted' } as const

/** Returns what a person reads; empty without a difference and without a problem. */
export function describeDifferences({ resources, rules, problems }: Differences): string {
  const ofResources = resources.flatMap(({ change, kind, namespace, name, fields }) => [
    `${signs[change]} ${kind} ${namespace}/${name} ${verbs[change]}`,
    ...fields.map(({ path, ...sides }) => `    ${path}: ${describeSides(sides, show)}`),
  ])
  const ofRules = rules.map(({ rule, ...sides }) => `  ${rule}: ${describeSides(sides, text => `${text}`)}`)
  const lines = [...ofResources, ...(ofRules.length > 0 ? ['', 'Rules:', ...ofRules] : [])]
  const shown = lines.map(line => `${printable(line)}\n`).join('')
  return problems.length === 0
    ? shown
    : `${shown}\nProblems:\n${problems.map(one => `  ${formatFinding(one)}`).join('')}`
}

interface Sides {
  readonly before?: unknown
  readonly after?: unknown
}

function describeSides({ before, after }: Sides, show: (value: unknown) => string): string {
  if (before === undefined) return `new: ${show(after)}`
  return after === undefined ? `gone, was ${show(before)}` : `${show(before)} -> ${show(after)}`
}

const show = (value: unknown) => JSON.stringify(value)
