import { join } from 'node:path'
import { root } from '../support/tollway.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import type { RulesFigures } from './rules-child.ts'
import { startOnServerCore } from './servers.ts'

/** Compiles and matches many rules, in a new process each time. */
export const rulesCase: BenchCase = {
  name: 'rules',
  title: '100,000 descriptors',
  needs: [],
  run,
}

async function run({ rounds }: Extent): Promise<CaseResult> {
  const figures: RulesFigures[] = []
  // Few processes, since there is no comparison, and parsing takes seconds.
  const processes = Math.ceil(rounds / 2)
  for (let child = 0; child < processes; child++) figures.push(await measureOnce())
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

async function measureOnce(): Promise<RulesFigures> {
  const program = startOnServerCore([join(root, 'test/bench/rules-child.ts')])
  const code = await program.exited()
  if (code !== 0) throw new Error(`rules-child.ts ended with ${code}; output: ${program.output()}`)
  return JSON.parse(program.output()) as RulesFigures
}
