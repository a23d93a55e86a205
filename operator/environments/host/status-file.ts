import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { StatusReport } from '../../status/status-report.ts'
import { writeAtomically } from './write-atomically.ts'

const statusPath = (stateDir: string) => join(stateDir, 'status.json')

export function writeStatusReport(stateDir: string, report: StatusReport): void {
  writeAtomically(statusPath(stateDir), `${JSON.stringify(report)}\n`)
}

/**
 * Removes the report of the previous operator. It is outdated, and `mayRun` could mistake this process for
 * the previous operator: in a container both may have the same process id.
 */
export function removeStatusReport(stateDir: string): void {
  rmSync(statusPath(stateDir), { force: true })
}

/**
 * Returns the report in the state folder; undefined if there is none. Throws if this user may not read it.
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

/** Returns whether the operator that wrote the report may be running: a process has its id. */
export function mayRun(report: StatusReport): boolean {
  try {
    process.kill(report.pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
