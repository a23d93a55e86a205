/**
 * `node test/console/soak.ts [MINUTES]` shows all pages of the console for an hour, or for MINUTES, while
 * calls arrive, and prints the memory of the browser and of the operator as a table. It fails if memory has
 * grown.
 */
import { measureSoak, type SoakSample } from './measure-soak.ts'
import { openConsole } from './open-console.ts'
import { buffersMinutes, growthFaults } from './soak-bounds.ts'

const minuteMs = 60_000
const warmUpMs = (buffersMinutes + 1) * minuteMs
const minutes = Number(process.argv[2] ?? 60)
const measureMs = minutes * minuteMs - warmUpMs
if (!(measureMs > 0))
  throw new Error(`minutes ${process.argv[2]}: expected a number above ${buffersMinutes + 1}`)

const site = await openConsole(['--replicas', '2', '--payments'])
process.stdout.write(
  '| Minute | Heap of 7 tabs | DOM nodes | Listeners | Operator | Pages shown |\n| --- | --- | --- | --- | --- | --- |\n',
)
const print = ({ minutes, heapMiB, nodes, listeners, operatorMiB, moves }: SoakSample) => {
  const sizes = [heapMiB, operatorMiB].map(mebibytes => `${mebibytes.toFixed(1)} MiB`)
  const cells = [minutes.toFixed(0), sizes[0], nodes, listeners, sizes[1], moves]
  process.stdout.write(`| ${cells.join(' | ')} |\n`)
}
try {
  await site.stream('utterance-1')
  const { first, last } = await measureSoak(site, {
    ...{ warmUpMs, measureMs, leastMoves: 1, sampleMs: 5 * minuteMs, moveMs: 5_000, callMs: 500 },
    onSample: print,
  })
  const faults = [...growthFaults(first, last), ...site.complaints]
  for (const fault of faults) process.stdout.write(`${fault}\n`)
  process.exitCode = faults.length === 0 ? 0 : 1
} finally {
  await site.close()
}
