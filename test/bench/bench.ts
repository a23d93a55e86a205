import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { renderTable } from '../../operator/cli/render.ts'
import { findProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { type DecisionResult, decisionCases, measureDecisions } from './decisions.ts'
import { percentile } from './percentiles.ts'
import { measurePropagation } from './propagation.ts'

/** `bench.ts [decisions|propagation]`: measures, prints tables, and writes bench/results. */
const rounds = Number(process.env['ROUNDS'] ?? 5)
const edits = Number(process.env['EDITS'] ?? 200)
const only = process.argv[2]
const hasRedis = findProgram('redis-server') !== undefined
const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
const machine = `${cpus().length} × ${cpus()[0]?.model}, ${memory}, Node ${process.version}`
const say = (text: string) => process.stderr.write(`${text} …\n`)

const median = (results: readonly DecisionResult[], field: keyof DecisionResult) =>
  percentile(
    results.map(result => result[field]),
    0.5,
  )

/** The medians of both, and the spread of the ratio of CPU from round to round. */
async function decisions(): Promise<void> {
  const rows: string[][] = []
  const all: Record<string, unknown> = {}
  for (const one of decisionCases) {
    say(`decisions: ${one.name}, ${rounds} rounds of both`)
    const { ours, yardstick } = await measureDecisions(one, rounds)
    all[one.name] = { ours, yardstick }
    const ratios = ours.map((result, round) => result.cpuMicros / (yardstick[round]?.cpuMicros ?? Number.NaN))
    const spread = [0.5, 0, 1].map(share => percentile(ratios, share).toFixed(2))
    rows.push([
      one.name,
      `${median(ours, 'cpuMicros').toFixed(1)} / ${median(yardstick, 'cpuMicros').toFixed(1)}`,
      `${spread[0]} (${spread[1]} to ${spread[2]})`,
      ...(['decisionsPerSecond', 'p50Ms', 'p99Ms', 'rssMiB'] as const).map(field => {
        const digits = field.endsWith('Ms') ? 2 : 0
        return `${median(ours, field).toFixed(digits)} / ${median(yardstick, field).toFixed(digits)}`
      }),
    ])
  }
  const heading = [
    'OURS / YARDSTICK',
    'CPU µs A DECISION',
    'RATIO',
    'DECISIONS/S',
    'P50 MS',
    'P99 MS',
    'RSS MiB',
  ]
  show('decisions', `Decisions, flat out (${machine})`, renderTable(heading, rows), all)
}

async function propagation(): Promise<void> {
  const results = []
  for (const replicas of hasRedis ? [1, 3] : [1]) {
    say(`propagation: ${edits} edits with ${replicas} rate limit ${replicas === 1 ? 'process' : 'processes'}`)
    results.push(await measurePropagation(replicas, edits))
  }
  const rows = results.map(({ replicas, p50Ms, p99Ms, maxMs, calls, failedCalls }) => [
    `${replicas}`,
    `${edits}`,
    ...[p50Ms, p99Ms, maxMs].map(ms => ms.toFixed(1)),
    `${calls}`,
    `${failedCalls}`,
  ])
  const heading = ['PROCESSES', 'EDITS', 'P50 MS', 'P99 MS', 'MAX MS', 'CALLS MEANWHILE', 'FAILED']
  const title = `From a manifest's save to all processes enforcing it (${machine})`
  show('propagation', title, renderTable(heading, rows), results)
}

function show(name: string, title: string, table: string, results: unknown): void {
  process.stdout.write(`\n${title}\n\n${table}\n`)
  const folder = join(root, 'bench/results')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify({ machine, results }, undefined, 2)}\n`)
}

if (only !== 'decisions') await propagation()
if (only === 'propagation') process.exit(0)
if (hasRedis && findProgram('taskset')) await decisions()
else say('decisions are not measured: that needs redis-server and taskset on the PATH')
