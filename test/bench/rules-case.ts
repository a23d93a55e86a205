import { join } from 'node:path'
import { root } from '../support/tollway.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import type { MatchFigures } from './match-child.ts'
import type { RulesFigures } from './rules-child.ts'
import { startOnServerCore } from './servers.ts'

/** Compiles and matches many rules, in a new process each time. */
export const rulesCase: BenchCase = {
  name: 'rules',
  title: '100,000 descriptors',
  needs: [],
  run,
}

/** Matches values with 1,000 patterns of each kind, beside equality in the same process. */
export const matchCase: BenchCase = {
  name: 'match',
  title: '1,000 patterns of each kind on one level',
  needs: [],
  run: runMatches,
}

const mostMicrosAdded = 2

async function runMatches({ rounds }: Extent): Promise<CaseResult> {
  const figures: MatchFigures[] = []
  for (let child = 0; child < Math.ceil(rounds / 2); child++) figures.push(await measureIn('match-child.ts'))
  const rows = Object.keys(figures[0] ?? {}).map((kind): GoalRow => {
    const isBase = kind === 'equality'
    const hasGoal = !isBase && !kind.includes('regexes') && !kind.includes('groupBy')
    return {
      what: isBase ? 'a match by equality' : `added by ${kind}`,
      unit: 'µs',
      figures: figures.map(one => (one[kind] ?? 0) - (isBase ? 0 : (one['equality'] ?? 0))),
      goal: hasGoal ? { atMost: mostMicrosAdded } : undefined,
      compared: '',
    }
  })
  return { rows, measurements: {}, notes: [] }
}

async function run({ rounds }: Extent): Promise<CaseResult> {
  const figures: RulesFigures[] = []
  // Few processes, since there is no comparison, and parsing takes seconds.
  const processes = Math.ceil(rounds / 2)
  for (let child = 0; child < processes; child++) figures.push(await measureIn('rules-child.ts'))
  const row = (what: string, unit: string, figure: keyof RulesFigures, atMost?: number): GoalRow => ({
    what,
    unit,
    figures: figures.map(one => one[figure]),
    goal: atMost === undefined ? undefined : { atMost },
    compared: '',
  })
  return {
    rows: [
      row('compile', 's', 'compileSeconds', 1),
      row('a match', 'µs', 'matchMicros', 1),
      row('parse and validate the YAML', 's', 'readSeconds'),
    ],
    measurements: {},
    notes: [],
  }
}

async function measureIn<Figures>(child: string): Promise<Figures> {
  const program = startOnServerCore([join(root, 'test/bench', child)])
  const code = await program.exited()
  if (code !== 0) throw new Error(`${child} ended with ${code}; output: ${program.output()}`)
  return JSON.parse(program.output()) as Figures
}
