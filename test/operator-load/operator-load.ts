import { measureOperator, type OperatorLoad } from './measure-operator.ts'

/** 1,000 rules at 100 pods; a tenth of the rules has hits between two reports. */
const base: OperatorLoad = {
  ...{ domains: 10, rulesPerDomain: 100, changedRules: 10, pods: 100, consoles: 0 },
  ...{ settleMs: 10_000, measureMs: 30_000 },
}
const cases: readonly (readonly [name: string, load: OperatorLoad])[] = [
  ['no console', base],
  ['no console, all rules have hits', { ...base, changedRules: 100 }],
  ['20 consoles', { ...base, consoles: 20 }],
]

/** Prints the cost of an operator with many pods and consoles, as a table. */
async function main(): Promise<void> {
  process.stdout.write(
    '| Load | CPU, of one core | RSS | answers/s | events/s |\n| --- | --- | --- | --- | --- |\n',
  )
  for (const [name, load] of cases) {
    const ends: (() => Promise<void>)[] = []
    const { cpu, rssMiB, answers, events } = await measureOperator({ after: end => ends.push(end) }, load)
    for (const end of ends) await end()
    const seconds = (load.settleMs + load.measureMs) / 1000
    const cells = [name, `${(100 * cpu).toFixed(1)} %`, `${rssMiB.toFixed(0)} MiB`]
    const rates = [answers, events].map(count => (count / seconds).toFixed(0))
    process.stdout.write(`| ${[...cells, ...rates].join(' | ')} |\n`)
  }
}

await main()
