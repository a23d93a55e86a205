import { parseArgs } from 'node:util'
import { readCount } from '../support/read-count.ts'

export interface Options {
  /** The names of cases and parts; empty for all that measure. */
  readonly names: readonly string[]
  readonly short: boolean
  readonly markdown: boolean
  readonly help: boolean
  readonly rounds: number
  readonly edits: number
}

/** The names in addition to the cases. */
export const parts = ['decisions', 'streams', 'payments', 'propagation', 'profile', 'show'] as const

const maxRounds = 100
const maxEdits = 10_000

/**
 * Parses the command line; SHORT=1 in the environment is `--short`.
 *
 * @throws Error with the value that was found and the allowed ones
 */
export function readOptions(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  caseNames: readonly string[],
): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      short: { type: 'boolean', default: env['SHORT'] === '1' },
      markdown: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      rounds: { type: 'string' },
      edits: { type: 'string' },
    },
  })
  const known = [...parts, ...caseNames]
  for (const name of positionals) {
    if (!known.includes(name)) throw new Error(`there is no '${name}'; there are ${known.join(', ')}`)
  }
  return {
    names: positionals,
    short: values.short,
    markdown: values.markdown,
    help: values.help,
    rounds: readCount('--rounds', values.rounds ?? (values.short ? '3' : '5'), maxRounds),
    edits: readCount('--edits', values.edits ?? '200', maxEdits),
  }
}

export function helpText(cases: readonly { readonly name: string; readonly title: string }[]): string {
  const width = Math.max(...cases.map(({ name }) => name.length)) + 2
  const lines = cases.map(({ name, title }) => `  ${name.padEnd(width)}${title}`)
  return `Measures on this machine, and prints tables. Progress goes to standard error.

  bench.ts [--short] [--markdown] [--rounds N] [--edits N] [NAME ...]

Names; without one, decisions, streams, payments and propagation:
  decisions         all the cases of the rate limit service, against a yardstick in the same run
  streams           all the cases of the broker; one of them lasts ten minutes, unless the form is short
  payments          the cases of the payments service, on PostgreSQL
  propagation       from a manifest's save until every process enforces it
  profile           the ten functions that take the most time in the case uniform-keys
  show              the table of what was measured last, from bench/results
${lines.join('\n')}

Options:
  --short        four minutes, without propagation. Latencies, rates and times are judged by the best
                 round. A case that is below half a goal is measured again, with longer rounds; exits 1
                 when it still is.
                 SHORT=1 in the environment is the same
  --markdown     tables for a page of documentation
  --rounds N     how often each server is measured, in turn (5; 3 when short)
  --edits N      of the manifest, for propagation (200)

Examples:
  make bench
  bench.ts uniform-keys hot-key --rounds 3
  bench.ts --short
  bench.ts show --markdown

Results are written to bench/results/NAME.json. Needs Linux, two cores, taskset, redis-server; Envoy,
h2load and PostgreSQL with pgbench for the cases of theirs. What is missing is told, and left
out, or has failed with REQUIRE_SERVERS=1.
`
}
