import { fileURLToPath } from 'node:url'
import { type Program, startProgram } from '../support/program.ts'
import type { CaseResult, GoalRow } from './bench-case.ts'
import { formatNumber } from './format-number.ts'
import { percentile } from './percentiles.ts'
import { commandWithPriority } from './priority.ts'
import { otherCore, serverCore } from './servers.ts'

/** Between two looks at the clock: what passes beyond it, the core stood still. */
export const stepMs = 2
/** Before the load and everything that it measures. */
const priority = 90
const sleeper = fileURLToPath(new URL('standstill-sleeper.ts', import.meta.url))

/** Tells how long a call would have waited for its core only, while a case was measured. */
export interface StandstillWatch {
  /** In milliseconds, the worse of both cores; undefined where the kernel gives us no priority. */
  p99Ms(): Promise<number | undefined>
  end(): Promise<void>
}

/**
 * A core of a virtual machine may stand still while its host serves others, and no program on it can answer then. So
 * beside each case one process a core sleeps, and comes before all others when it wakes: how late it wakes is the
 * machine's doing.
 */
export function watchStandstill(): StandstillWatch {
  const priorityCommand = commandWithPriority(priority)
  const sleepers =
    priorityCommand.length === 0
      ? []
      : [serverCore, otherCore].map(core => startSleeper(core, priorityCommand))
  return {
    async p99Ms() {
      if (sleepers.length === 0) return undefined
      const waits = await Promise.all(sleepers.map(waitsOf))
      return Math.max(...waits.map(ofCore => percentile(ofCore, 0.99)))
    },
    async end() {
      await Promise.all(sleepers.map(program => program.end()))
    },
  }
}

function startSleeper(core: string, [command = '', ...args]: readonly string[]): Program {
  return startProgram(command, [...args, 'taskset', '-c', core, process.execPath, sleeper])
}

async function waitsOf(program: Program): Promise<readonly number[]> {
  await program.end()
  return callWaitsMs(JSON.parse(program.output()) as readonly number[])
}

/** What calls would have waited that are due at every step, from how late each sleep ended. */
export function callWaitsMs(latenesses: readonly number[]): readonly number[] {
  const waits: number[] = []
  for (const late of latenesses)
    for (let wait = late; wait > -stepMs; wait -= stepMs) waits.push(Math.max(0, wait))
  return waits
}

/** A latency in milliseconds that is missed is not judged where the cores were late by half of its goal. */
export function excuseLatencies(result: CaseResult, lateMs: number | undefined): CaseResult {
  if (lateMs === undefined) return result
  const late = `who only slept was late by ${formatNumber(lateMs)} ms at p99`
  const excuse = (row: GoalRow): GoalRow => {
    const { goal, unit } = row
    const isLatency = unit === 'ms' && goal !== undefined && 'atMost' in goal
    return isLatency && lateMs > goal.atMost / 2 ? { ...row, excuse: late } : row
  }
  return { ...result, rows: result.rows.map(excuse), notes: [...result.notes, late] }
}
