import { existsSync } from 'node:fs'
import { systemClock } from '@tollway/chassis/clock.ts'
import { unknownKinds } from '../reconcilers/known-kinds.ts'
import { createFileSource } from '../sources/files.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import { readStatusReport } from '../standalone/status-report.ts'
import { UsageError } from './command.ts'

export interface FolderContent {
  readonly resources: readonly SourcedResource[]
  /** What is no resource, or none of a kind that is known. */
  readonly problems: readonly SourceProblem[]
}

/** Everything that a folder, or one file, of manifests holds, as the operator reads it. */
export async function readFolder(folder: string): Promise<FolderContent> {
  if (!existsSync(folder)) throw new UsageError(`${folder}: no such file or folder`)
  const source = createFileSource({ folder, clock: systemClock })
  await source.start()
  const resources = source.list()
  const problems = [...source.problems(), ...unknownKinds(resources)]
  await source.stop()
  return { resources, problems }
}

/** The folder that was named, or else the one that the operator on this machine runs with. */
export function folderOrRunning(folder: string | undefined, stateDir: string): string {
  const chosen = folder ?? readStatusReport(stateDir)?.folder
  if (chosen !== undefined) return chosen
  throw new UsageError(
    `name a folder of manifests with -f; no operator has run with the state in ${stateDir}`,
  )
}
