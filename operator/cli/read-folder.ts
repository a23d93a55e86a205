import { existsSync } from 'node:fs'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createFileSource } from '../sources/files.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import { readStatusReport } from '../standalone/status-report.ts'
import { UsageError } from './command.ts'

/** The folder where an operator on this machine keeps its state, unless another is named. */
export const defaultStateDir = '.tollway'

/** Everything that a folder, or one file, of manifests holds. */
export async function readFolder(
  folder: string,
): Promise<{ readonly resources: readonly SourcedResource[]; readonly problems: readonly SourceProblem[] }> {
  if (!existsSync(folder)) throw new UsageError(`${folder}: no such file or folder`)
  const source = createFileSource({ folder, clock: systemClock })
  await source.start()
  const found = { resources: source.list(), problems: source.problems() }
  await source.stop()
  return found
}

/** The folder that was named, or else the one that the operator on this machine runs with. */
export function folderOrRunning(folder: string | undefined, stateDir: string): string {
  const chosen = folder ?? readStatusReport(stateDir)?.folder
  if (chosen !== undefined) return chosen
  throw new UsageError(
    `name a folder of manifests with -f; no operator has run with the state in ${stateDir}`,
  )
}
