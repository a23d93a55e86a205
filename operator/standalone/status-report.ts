import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Replica } from '../infrastructure/provider.ts'
import type { ResourceStatus } from '../reconcilers/resource-status.ts'
import type { SourceProblem } from '../sources/source.ts'
import { writeAtomically } from './write-atomically.ts'

/**
 * Everything that `tollway status` shows; kept in a file beside the state, and served by the operator as
 * JSON.
 */
export interface StatusReport {
  /** The operator's process. */
  readonly pid: number
  readonly updatedAt: string
  /** The folder of manifests. */
  readonly folder: string
  /** `rate limit gRPC` -> `127.0.0.1:8081`. */
  readonly addresses: Readonly<Record<string, string>>
  readonly resources: readonly ResourceStatus[]
  readonly replicas: readonly Replica[]
  /** Files that could not be read. */
  readonly problems: readonly SourceProblem[]
}

const fileName = 'status.json'

export function writeStatusReport(stateDir: string, report: StatusReport): void {
  writeAtomically(join(stateDir, fileName), `${JSON.stringify(report, undefined, 2)}\n`)
}

/** undefined when no operator ever ran on this state folder. */
export function readStatusReport(stateDir: string): StatusReport | undefined {
  try {
    return JSON.parse(readFileSync(join(stateDir, fileName), 'utf8')) as StatusReport
  } catch {
    return undefined
  }
}

/** Whether the operator that wrote the report still runs. */
export function isRunning(report: StatusReport): boolean {
  try {
    process.kill(report.pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
