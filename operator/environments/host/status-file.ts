import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { StatusReport } from '../../status/status-report.ts'
import { writeAtomically } from './write-atomically.ts'

const statusPath = (stateDir: string) => join(stateDir, 'status.json')

export function writeStatusReport(stateDir: string, report: StatusReport): void {
  writeAtomically(statusPath(stateDir), `${JSON.stringify(report)}\n`)
}

/**
 * Removes the report of the previous operator. It is outdated, and in a container both operators may have the
 * same process id.
 */
export function removeStatusReport(stateDir: string): void {
  rmSync(statusPath(stateDir), { force: true })
}

/**
 * Returns undefined if no operator has run on this state folder. Throws if there is a report that this user
 * may not read.
 */
export function readStatusReport(stateDir: string): StatusReport | undefined {
  try {
    return JSON.parse(readFileSync(statusPath(stateDir), 'utf8')) as StatusReport
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Returns whether a process has the id of the operator that wrote the report. */
export function mayRun(report: StatusReport): boolean {
  try {
    process.kill(report.pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
