import { parseArgs } from 'node:util'
import { readCount } from '../support/read-count.ts'

export interface Options {
  /** The names of cases; empty for all. */
  readonly names: readonly string[]
  readonly short: boolean
  readonly markdown: boolean
  readonly help: boolean
  readonly seed: number
  readonly callsPerSecond: number
  readonly holdSeconds: number
}

const limits = { seed: 2 ** 31, rate: 50_000, hold: 3_600 } as const

/**
 * Parses the command line; SHORT=1 in the environment is `--short`.
 *
 * @param seed the default of `--seed`
 * @throws Error with the value that was found and the allowed ones
 */
export function readOptions(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  caseNames: readonly string[],
  seed: number,
): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      short: { type: 'boolean', default: env['SHORT'] === '1' },
      markdown: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      seed: { type: 'string', default: `${seed}` },
      rate: { type: 'string' },
      hold: { type: 'string' },
    },
  })
  for (const name of positionals) {
    if (!caseNames.includes(name)) throw new Error(`unknown case '${name}': expected ${caseNames.join(', ')}`)
  }
  const { short, markdown, help } = values
  return {
    names: positionals,
    short,
    markdown,
    help,
    seed: readCount('--seed', values.seed, limits.seed),
    callsPerSecond: readCount('--rate', values.rate ?? (short ? '1000' : '2000'), limits.rate),
    holdSeconds: readCount('--hold', values.hold ?? (short ? '1' : '20'), limits.hold),
  }
}

export function helpText(cases: readonly { readonly name: string; readonly title: string }[]): string {
  const lines = cases.map(({ name, title }) => `  ${name.padEnd(22)}${title}`)
  return `Injects faults while the rate limit service is under load, and prints the effects of each.

  faults.ts [--short] [--markdown] [--seed N] [--rate N] [--hold SECONDS] [NAME ...]

Names; without one, all:
${lines.join('\n')}

Options:
  --short         a second of each fault and four processes instead of sixteen: two minutes instead of
                  twenty. SHORT=1 in the environment is the same
  --markdown      tables for a page of documentation
  --seed N        repeats the random choices of a run, which prints its seed; by default from the clock
  --rate N        calls a second (2000; 1000 when short)
  --hold SECONDS  the duration of a fault while answers are measured (20; 1 when short)

Examples:
  make faults
  make faults ARGS='--short'
  make faults ARGS='refused black-hole --hold 60'
  make faults ARGS='random --seed 7'
  make faults ARGS='full-rate --hold 600'

Exits 1 when a guarantee is violated, and 0 when only a goal for a latency or the memory is missed. Needs
Linux, redis-server and memcached; cases whose program is missing are skipped.
`
}
