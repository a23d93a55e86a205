import { existsSync } from 'node:fs'
import { systemClock } from '@tollway/chassis/clock.ts'
import { unknownKinds } from '../reconcilers/known-kinds.ts'
import type { Memory } from '../reconcilers/remembered.ts'
import { createFileSource } from '../sources/files.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import { openRememberedFile, rememberedPath } from '../standalone/remembered-file.ts'
import { readStatusReport } from '../standalone/status-report.ts'
import { type Output, UsageError } from './command.ts'

export interface FolderContent {
  readonly folder: string
  readonly resources: readonly SourcedResource[]
  /** What is no resource, or none of a kind that is known. */
  readonly problems: readonly SourceProblem[]
  /** Those of them that may hide a resource. */
  readonly unread: readonly SourceProblem[]
  /** What the operator remembers of it; nothing for a folder that was named. */
  readonly memories: ReadonlyMap<string, Memory>
}

/**
 * Everything that a folder, or one file, of manifests holds, as the operator reads it: of the one that was
 * named, or else of the one that the operator on this machine runs with.
 */
export async function readFolder(
  named: string | undefined,
  stateDir: string,
  output: Pick<Output, 'printError'>,
): Promise<FolderContent> {
  const folder = named ?? folderOfOperator(stateDir)
  if (!existsSync(folder)) throw new UsageError(`${folder}: no such file or folder`)
  const source = createFileSource({ folder, clock: systemClock })
  await source.start()
  const resources = source.list()
  const problems = [...source.problems(), ...unknownKinds(resources)]
  const unread = source.unread()
  await source.stop()
  const memories = named === undefined ? remembered(stateDir, output) : new Map<string, Memory>()
  return { folder, resources, problems, unread, memories }
}

function remembered(stateDir: string, output: Pick<Output, 'printError'>): ReadonlyMap<string, Memory> {
  return openRememberedFile(rememberedPath(stateDir), text => output.printError(`${text}\n`)).all()
}

function folderOfOperator(stateDir: string): string {
  const folder = readStatusReport(stateDir)?.folder
  if (folder !== undefined) return folder
  throw new UsageError(
    `name a folder of manifests with -f; no operator has run with the state in ${stateDir}`,
  )
}
