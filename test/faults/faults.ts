import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { processTree } from '../bench/process-usage.ts'
import { renderReport } from '../bench/report.ts'
import { findProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { cases } from './cases.ts'
import type { CaseOptions, FaultCase } from './fault-case.ts'
import { helpText, type Options, readOptions } from './options.ts'
import { answerTable, countTable, messageTable, type TitledReport, verdict } from './report.ts'
import { createSetupPool } from './setups.ts'

/** Injects faults and prints their effects; `--help` explains the options. */
const options = readOptionsOrExit()
const log = (text: string) => void process.stderr.write(`${text}\n`)

function readOptionsOrExit(): Options {
  try {
    const names = cases.map(({ name }) => name)
    return readOptions(process.argv.slice(2), process.env, names, (Date.now() % 2 ** 31) + 1)
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\nfaults.ts --help lists the options\n`)
    process.exit(2)
  }
}

const setups = createSetupPool()

function createOptions(): CaseOptions {
  const { short, seed, callsPerSecond, holdSeconds } = options
  const holdMs = 1_000 * holdSeconds
  const common = { seed, callsPerSecond, setups, deadlineMs: 15 }
  if (short) {
    const exactness = { processes: 4, connections: 100, limit: 5_000 }
    return { ...common, connections: 10, warmUpMs: 500, holdsMs: [holdMs], exactness }
  }
  const exactness = { processes: 16, connections: 1_000, limit: 20_000 }
  // Each shorter one ends at a different moment between two attempts to reach the backend.
  const holdsMs = [holdMs, 2_100, 2_700, 3_300, 3_900]
  return { ...common, connections: 20, warmUpMs: 2_000, holdsMs, exactness }
}

async function runCase(fault: FaultCase): Promise<TitledReport['result']> {
  const missing = fault.needs.filter(program => findProgram(program) === undefined)
  if (missing.length > 0) return { kind: 'skipped', reason: `needs ${missing.join(' and ')} on the PATH` }
  try {
    return { kind: 'run', report: await fault.run(createOptions()) }
  } catch (error) {
    return { kind: 'run', report: { goals: [], violations: [(error as Error).message], notes: [] } }
  }
}

async function main(): Promise<void> {
  if (options.help) return void process.stdout.write(helpText(cases))
  const { names, seed, callsPerSecond, holdSeconds } = options
  const chosen = names.length === 0 ? cases : cases.filter(({ name }) => names.includes(name))
  const [busy = 0] = loadavg()
  if (busy > 1) log(`the machine is busy (load average ${busy.toFixed(1)}): latencies will be too high`)
  log(`seed ${seed}: --seed ${seed} repeats the random choices`)
  const reports: TitledReport[] = []
  try {
    for (const [index, fault] of chosen.entries()) {
      const { name, title } = fault
      log(`[${index + 1}/${chosen.length}] ${name}: ${title} …`)
      const startedMs = performance.now()
      const result = await runCase(fault)
      reports.push({ name, title, result })
      if (result.kind === 'skipped') {
        log(`  SKIPPED: ${result.reason}`)
        continue
      }
      const seconds = Math.round((performance.now() - startedMs) / 1000)
      log(`  ${seconds} s; goals ${verdict(result.report)}`)
      for (const violation of result.report.violations) log(`  VIOLATED: ${violation}`)
    }
  } finally {
    await setups.close()
  }
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const machine = `${cpus().length} × ${cpus()[0]?.model}, ${memory}, Node ${process.version}`
  const how = `${callsPerSecond} calls/s, faults of ${holdSeconds} s, seed ${seed}; ${machine}`
  show(`Answers while the fault holds (${how})`, answerTable(reports))
  show('Counts and the process', countTable(reports))
  show('Errors', messageTable(reports))
  saveResults({ machine, options, reports })
  const isViolated = reports.some(
    ({ result }) => result.kind === 'run' && result.report.violations.length > 0,
  )
  if (isViolated) process.exitCode = 1
}

function show(title: string, table: Parameters<typeof renderReport>[0]): void {
  process.stdout.write(`\n${title}\n\n${renderReport(table, options.markdown)}`)
}

function saveResults(content: unknown): void {
  const folder = join(root, 'out/faults')
  mkdirSync(folder, { recursive: true })
  const file = join(folder, `${options.short ? 'short' : 'full'}.json`)
  writeFileSync(file, `${JSON.stringify(content, undefined, 2)}\n`)
  log(`results saved in ${file}`)
}

/** Ctrl-C ends all processes. */
function endAll(): void {
  for (const pid of processTree(process.pid).slice(1)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // The process has already ended.
    }
  }
  process.exit(130)
}

process.once('SIGINT', endAll)
process.once('SIGTERM', endAll)
await main()
