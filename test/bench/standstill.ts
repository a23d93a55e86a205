import { fileURLToPath } from 'node:url'
import { type Program, startProgram } from '../support/program.ts'
import type { CaseResult, GoalRow } from './bench-case.ts'
import { formatNumber } from './format-number.ts'
import { percentile } from './percentiles.ts'
import { commandWithPriority } from './priority.ts'
import { otherCore, serverCore } from './servers.ts'

/** The interval of clock readings; longer gaps are pauses of the core. */
export const stepMs = 2
/** The priority is above that of the load and all measured programs. */
const priority = 90
const sleeper = fileURLToPath(new URL('standstill-sleeper.ts', import.meta.url))

/** Measures how long calls would have waited for the cores alone, during a case. */
export interface StandstillWatch {
  /** Resolves with milliseconds, of the worse core; undefined without the priority. */
  p99Ms(): Promise<number | undefined>
  end(): Promise<void>
}

/**
 * A core of a virtual machine may pause while its host serves others, so that no program on it can answer.
 * During each case one process on each core sleeps, with priority over all others when it wakes: its lateness
 * is caused by the machine.
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

/** Returns the waits of calls that are due at every step, from the lateness of each sleep. */
export function callWaitsMs(latenesses: readonly number[]): readonly number[] {
  const waits: number[] = []
  for (const late of latenesses)
    for (let wait = late; wait > -stepMs; wait -= stepMs) waits.push(Math.max(0, wait))
  return waits
}

/** A missed latency in milliseconds is not judged if the cores were late by half of its goal. */
export function excuseLatencies(result: CaseResult, lateMs: number | undefined): CaseResult {
  if (lateMs === undefined) return result
  const late = `a sleeping process was late by ${formatNumber(lateMs)} ms at p99`
  const excuse = (row: GoalRow): GoalRow => {
    const { goal, unit } = row
    const isLatency = unit === 'ms' && goal !== undefined && 'atMost' in goal
    return isLatency && lateMs > goal.atMost / 2 ? { ...row, excuse: late } : row
  }
  return { ...result, rows: result.rows.map(excuse), notes: [...result.notes, late] }
}
