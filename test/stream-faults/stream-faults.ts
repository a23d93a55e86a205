import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { formatNumber } from '../bench/format-number.ts'
import { describeGoal } from '../bench/goals.ts'
import { renderReport } from '../bench/report.ts'
import { verdict } from '../faults/report.ts'
import { root } from '../support/tollway.ts'
import { cases } from './cases.ts'
import { runFault } from './run-fault.ts'

/**
 * Injects faults into the streams of a broker and prints the figures: `stream-faults.ts [--short]
 * [--markdown] [--seed N] [NAME ...]`. Exits 1 when a guarantee is violated, and 0 when only a goal for a
 * latency or the memory is missed.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: process.env['SHORT'] === '1' },
    markdown: { type: 'boolean', default: false },
    seed: { type: 'string', default: `${(Date.now() % 2 ** 31) + 1}` },
  },
})
const unknown = positionals.filter(name => !cases.some(one => one.name === name))
if (unknown.length > 0) {
  const names = cases.map(({ name }) => name).join(', ')
  process.stderr.write(`unknown fault ${unknown.join(', ')}: expected ${names}\n`)
  process.exit(2)
}
const say = (text: string) => void process.stderr.write(`${text}\n`)
const seed = Number(values.seed)
say(`seed ${seed}, load average ${loadavg()[0]?.toFixed(1)}`)
const chosen = cases.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
const rows: string[][] = []
for (const one of chosen) {
  say(`${one.name}: ${one.title} …`)
  const { size, goals, violations } = await runFault(one, { seed, isLong: !values.short })
  for (const violation of violations) say(`  VIOLATED: ${violation}`)
  if (violations.length > 0) process.exitCode = 1
  const figures = goals.map(
    ({ what, unit, goal, figure }) =>
      `${what}: ${formatNumber(figure)} ${unit} (${describeGoal(goal, unit)})`,
  )
  const guarantees = violations.length === 0 ? 'met' : `VIOLATED: ${violations.join('; ')}`
  rows.push([one.name, one.title, size, figures.join('; '), verdict({ goals }), guarantees])
}
const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
const machine = `${cpus().length} × ${cpus()[0]?.model}, ${memory}, Node ${process.version}`
const table = { heading: ['Fault', 'Description', 'Size', 'Figures', 'Goals', 'Guarantees'], rows }
process.stdout.write(`\nStreams (seed ${seed}; ${machine})\n\n${renderReport(table, values.markdown)}`)
const folder = join(root, 'out/faults')
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'streams.json'), `${JSON.stringify({ machine, seed, rows }, undefined, 2)}\n`)
process.exit()
