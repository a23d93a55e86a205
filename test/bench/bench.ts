import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { renderTable } from '../../operator/cli/options.ts'
import { findProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { measurePropagation, type PropagationResult } from './propagation.ts'

const edits = Number(process.env['EDITS'] ?? 200)
const results: PropagationResult[] = []
for (const replicas of findProgram('redis-server') ? [1, 3] : [1]) {
  process.stderr.write(
    `${edits} edits with ${replicas} rate limit ${replicas === 1 ? 'process' : 'processes'} …\n`,
  )
  results.push(await measurePropagation(replicas, edits))
}
const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
const machine = `${cpus().length} × ${cpus()[0]?.model}, ${memory}, Node ${process.version}`
const rows = results.map(({ replicas, edits, p50Ms, p99Ms, maxMs, calls, failedCalls }) => [
  `${replicas}`,
  `${edits}`,
  ...[p50Ms, p99Ms, maxMs].map(ms => ms.toFixed(1)),
  `${calls}`,
  `${failedCalls}`,
])
const heading = ['PROCESSES', 'EDITS', 'P50 MS', 'P99 MS', 'MAX MS', 'CALLS MEANWHILE', 'FAILED']
process.stdout.write(
  `\nFrom a manifest's save to all processes enforcing it (${machine})\n\n${renderTable(heading, rows)}`,
)
const folder = join(root, 'bench/results')
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'propagation.json'), `${JSON.stringify({ machine, results }, undefined, 2)}\n`)
