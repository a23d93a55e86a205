import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { findPostgresProgram } from '../support/postgres-server.ts'
import { findProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { cases, decisionCases, paymentCases, streamCases } from './cases.ts'
import { formatNumber } from './format-number.ts'
import { helpText, type Options, readOptions } from './options.ts'
import { profileDecisions } from './profile.ts'
import { measurePropagation } from './propagation.ts'
import { figureTable, goalTable, isBelowHalf, type Report, renderReport, type Table } from './report.ts'
import { moveToOtherCore, SettingRejected } from './servers.ts'
import { excuseLatencies, watchStandstill } from './standstill.ts'
import { runWithOptions } from './with-options.ts'

/** The benchmarks; `--help` explains the options. */
const options = optionsOrExit()
const results = join(root, 'bench/results', options.short ? 'short' : '')
const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
const machine = `${cpus().length} × ${cpus()[0]?.model}, ${memory}, Node ${process.version}`
const say = (text: string) => void process.stderr.write(`${text}\n`)
const isAsked = (name: string) => options.names.includes(name)

function optionsOrExit(): Options {
  try {
    const names = cases.map(({ name }) => name)
    return readOptions(process.argv.slice(2), process.env, names)
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\nbench.ts --help explains the options\n`)
    process.exit(2)
  }
}

const { rounds } = options
const longExtent: Extent = { rounds, roundMs: 3000, warmUpMs: 500, firstWarmUpMs: 3000, soakMs: 600_000 }
const shortExtent: Extent = { rounds, roundMs: 600, warmUpMs: 100, firstWarmUpMs: 700, soakMs: 6000 }
/** The extent of the second attempt in the short form. */
const secondExtent: Extent = { rounds, roundMs: 2000, warmUpMs: 300, firstWarmUpMs: 2000, soakMs: 12_000 }

async function propagation(): Promise<void> {
  const { edits } = options
  const all = []
  for (const replicas of findProgram('redis-server') ? [1, 3] : [1]) {
    say(
      `propagation: ${edits} edits with ${replicas} rate limit ${replicas === 1 ? 'process' : 'processes'} …`,
    )
    all.push(await measurePropagation(replicas, edits))
  }
  const rows = all.map(({ replicas, p50Ms, p99Ms, maxMs, calls, failedCalls }) =>
    [replicas, edits, formatNumber(p50Ms), formatNumber(p99Ms), formatNumber(maxMs), calls, failedCalls].map(
      String,
    ),
  )
  const heading = ['Processes', 'Edits', 'p50 ms', 'p99 ms', 'max ms', 'Calls meanwhile', 'Failed']
  show(`From a manifest's save to all processes enforcing it (${machine})`, { heading, rows })
  keep('propagation', { machine, results: all })
}

async function measureCases(chosen: readonly BenchCase[]): Promise<void> {
  if (cpus().length < 2 || findProgram('taskset') === undefined) {
    return say('skip the cases: they need two cores, and taskset on the PATH')
  }
  const [busy = 0] = loadavg()
  if (busy > 1)
    say(`the machine is busy (load average ${busy.toFixed(1)}): only ratios of CPU time are meaningful`)
  moveToOtherCore()
  const reports: Report[] = []
  for (const [index, one] of chosen.entries()) {
    say(`[${index + 1}/${chosen.length}] ${one.name}: ${one.title} …`)
    const startedMs = performance.now()
    const report = await runCase(one)
    say(`  ${Math.round((performance.now() - startedMs) / 1000)} s`)
    if (report === undefined) continue
    reports.push(report)
    keep(one.name, report)
  }
  showReports(reports)
  if (options.short && reports.some(isReportBelowHalf)) {
    say('a figure is below half its goal')
    process.exitCode = 1
  }
}

async function runCase(one: BenchCase): Promise<Report | undefined> {
  const { name, title, needs } = one
  const missing = needs.filter(program => findPostgresProgram(program) === undefined)
  if (missing.length > 0) {
    const must = process.env['REQUIRE_SERVERS'] === '1'
    say(`  ${must ? 'FAILED' : 'LEFT OUT'}: ${name} needs ${missing.join(' and ')} on the PATH`)
    if (must) process.exitCode = 1
    return undefined
  }
  const standstill = watchStandstill()
  try {
    const measured = await (options.short ? runShort(one) : one.run(longExtent))
    const result = excuseLatencies(measured, await standstill.p99Ms())
    for (const note of result.notes) say(`  ${note}`)
    return { machine, title, ...result }
  } catch (error) {
    if (error instanceof SettingRejected) say(`  LEFT OUT: ${name}: the service reports:  ${error.message}`)
    else {
      say(`  FAILED: ${name}: ${(error as Error).stack}`)
      process.exitCode = 1
    }
    return undefined
  } finally {
    await standstill.end()
  }
}

/**
 * A busy machine makes some rounds worse: of latencies and rates the best one is judged, and a case that is
 * below half of a goal is measured again, with longer rounds.
 */
async function runShort({ name, run }: BenchCase): Promise<CaseResult> {
  const first = judgedByBest(await run(shortExtent))
  if (!isReportBelowHalf(first)) return first
  say(`  below half a goal: ${name} is measured again, with longer rounds …`)
  const second = judgedByBest(await run(secondExtent))
  return { ...second, notes: [...second.notes, 'measured twice: with short rounds it was below half a goal'] }
}

function judgedByBest(result: CaseResult): CaseResult {
  return { ...result, rows: result.rows.map(row => (row.steady ? row : { ...row, judgedBy: 'best' })) }
}

function isReportBelowHalf({ rows }: CaseResult): boolean {
  return rows.some(isBelowHalf)
}

async function profile(): Promise<void> {
  moveToOtherCore()
  say('profile: the case uniform-keys …')
  const times = await profileDecisions(5000, 3000)
  const rows = times
    .slice(0, 10)
    .map(({ name, share }, place) => [`${place + 1}`, name, `${formatNumber(share * 100)} %`])
  show(`Where our server's time goes, 10,000 uniform keys (${machine})`, {
    heading: ['', 'Function', 'Self time'],
    rows,
  })
  keep('profile', { machine, times: times.slice(0, 100) })
}

/** Shows the last results of each case that has a file. */
function showKept(): void {
  const reports = cases.flatMap(({ name }) => {
    try {
      return [JSON.parse(readFileSync(join(results, `${name}.json`), 'utf8')) as Report]
    } catch {
      return []
    }
  })
  showReports(reports)
}

function showReports(reports: readonly Report[]): void {
  const machines = [...new Set(reports.map(report => report.machine))].join('; ')
  show(`Goals (${machines})`, goalTable(reports))
  show('Medians of all figures', figureTable(reports))
  const notes = reports.flatMap(report => report.notes.map(note => `${report.title}: ${note}\n`))
  process.stdout.write(`\n${notes.join('')}`)
}

function show(title: string, table: Table): void {
  process.stdout.write(`\n${title}\n\n${renderReport(table, options.markdown)}`)
}

function keep(name: string, content: unknown): void {
  mkdirSync(results, { recursive: true })
  writeFileSync(join(results, `${name}.json`), `${JSON.stringify(content, undefined, 2)}\n`)
}

async function main(): Promise<void> {
  if (options.help) return void process.stdout.write(helpText(cases))
  if (isAsked('show')) return showKept()
  const all = options.names.length === 0
  // Uses all cores, so it runs before the process is pinned to one.
  if (isAsked('propagation') || (all && !options.short)) await propagation()
  const groups = [
    ...(all || isAsked('decisions') ? decisionCases : []),
    ...(all || isAsked('streams') ? streamCases : []),
    ...(all || isAsked('payments') ? paymentCases : []),
  ].filter(({ long }) => !(options.short && long))
  const asked = new Set([...groups, ...cases.filter(({ name }) => isAsked(name))])
  const chosen = cases.filter(one => asked.has(one))
  if (chosen.length > 0) await measureCases(chosen)
  if (isAsked('profile')) await profile()
}

// The load has one core. Garbage collection threads would compete with it, and the servers would appear slow.
runWithOptions(['--single-threaded-gc'])
await main()
