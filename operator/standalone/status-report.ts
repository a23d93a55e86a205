import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Condition } from '../controller/conditions.ts'
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
  /** Identifies the release of the chart whose operator reports. Only in a cluster. */
  readonly revision?: string
  /** `grpc` -> `127.0.0.1:8081`. */
  readonly addresses: Readonly<Record<string, string>>
  readonly resources: readonly ResourceStatus[]
  readonly replicas: readonly Replica[]
  /** What could not be read, or is no resource that the operator knows. */
  readonly problems: readonly SourceProblem[]
}

const pathOf = (stateDir: string) => join(stateDir, 'status.json')

export function writeStatusReport(stateDir: string, report: StatusReport): void {
  writeAtomically(pathOf(stateDir), `${JSON.stringify(report)}\n`)
}

/**
 * For an operator that starts: what the one before it wrote is no longer so, and in a container both may
 * have the same process number.
 */
export function removeStatusReport(stateDir: string): void {
  rmSync(pathOf(stateDir), { force: true })
}

/**
 * undefined when no operator ever ran on this state folder. Throws when there is a report, but not for us.
 */
export function readStatusReport(stateDir: string): StatusReport | undefined {
  try {
    return JSON.parse(readFileSync(pathOf(stateDir), 'utf8')) as StatusReport
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Whether there is a process with the number of the operator that wrote the report. */
export function mayRun(report: StatusReport): boolean {
  try {
    process.kill(report.pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Whether everything that was asked for is so: each resource, each process, each file.
 *
 * @param exceptStalled passes over resources that wait for their writers.
 */
export function isReady({ resources, replicas, problems }: StatusReport, exceptStalled = false): boolean {
  const isStalled = (resource: ResourceStatus) => conditionOf(resource, 'Stalled').status === 'True'
  const counted = exceptStalled ? resources.filter(resource => !isStalled(resource)) : resources
  const ready = counted.every(resource => conditionOf(resource, 'Ready').status === 'True')
  return (
    ready &&
    problems.every(({ isWarning }) => isWarning === true) &&
    replicas.length > 0 &&
    replicas.every(replica => replica.ready)
  )
}

export function conditionOf(
  { conditions }: Pick<ResourceStatus, 'conditions'>,
  type: string,
): Pick<Condition, 'status' | 'reason' | 'message'> {
  return conditions.find(one => one.type === type) ?? { status: 'Unknown', reason: '', message: '' }
}
