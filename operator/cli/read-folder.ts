import { existsSync } from 'node:fs'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type CommandOutput, UsageError } from '@tollway/chassis/command-line/command.ts'
import { openRememberedFile, rememberedPath } from '../environments/host/memory.ts'
import { createFileSource } from '../environments/host/resources.ts'
import { folderSecrets } from '../environments/host/secrets.ts'
import { readStatusReport } from '../environments/host/status-file.ts'
import type { RouteSecrets } from '../kinds/animation-stream-route/route-secrets.ts'
import type { ResourceMemory } from '../kinds/choose-contents.ts'
import type { KindAdapter, Named } from '../kinds/kind-adapter.ts'
import { type KindAdapters, openKindAdapters, rememberedKinds, unknownKinds } from '../kinds/registry.ts'
import type { SourcedResource, SourceProblem } from '../kinds/source.ts'
import { createSource } from './run-program.ts'
import { folderOptions } from './shared-options.ts'

export const folderSource = createSource(folderOptions, ({ file, 'state-dir': stateDir }, output) =>
  readFolder(file, stateDir, output),
)

export interface FolderContent {
  readonly folder: string
  readonly resources: readonly SourcedResource[]
  /** The problems of files that are not resources, and of resources of unknown kinds. */
  readonly problems: readonly SourceProblem[]
  /** Why files that may contain a resource were not read. */
  readonly unread: readonly SourceProblem[]
  /** Opened with the Secrets of this folder. */
  readonly kinds: KindAdapters
  /** Returns nothing for the folder of `--file`. */
  memoriesOf<Content extends Named>(kind: KindAdapter<Content>): ReadonlyMap<string, ResourceMemory<Content>>
}

/** @param named a folder or file of manifests; undefined for the folder of the operator on this machine */
export async function readFolder(
  named: string | undefined,
  stateDir: string,
  output: Pick<CommandOutput, 'printError'>,
): Promise<FolderContent> {
  const folder = named ?? findOperatorFolder(stateDir)
  if (!existsSync(folder)) throw new Error(`--file ${folder}: no such file or folder`)
  const source = createFileSource({ folder, clock: systemClock })
  await source.start()
  const resources = source.list()
  const problems = [...source.problems(), ...unknownKinds(resources)]
  const unread = source.unread()
  await source.stop()
  const kinds = openKinds(resources)
  const warn = (text: string) => output.printError(`${text}\n`)
  const remembered =
    named === undefined ? openRememberedFile(rememberedPath(stateDir), rememberedKinds, warn) : undefined
  return {
    folder,
    resources,
    problems,
    unread,
    kinds,
    memoriesOf: kind => remembered?.of(kind).all() ?? new Map(),
  }
}

/** @param routeSecrets by default, the Secrets among the resources */
export function openKinds(
  resources: readonly SourcedResource[],
  routeSecrets: RouteSecrets = folderSecrets({ list: () => resources, onChange: () => {} }),
): KindAdapters {
  const loads = { sum: () => ({ activeStreams: 0, consumers: 0 }), onChange: () => {} }
  return openKindAdapters({ routeSecrets, loads })
}

function findOperatorFolder(stateDir: string): string {
  const folder = readStatusReport(stateDir)?.folder
  if (folder !== undefined) return folder
  throw new UsageError(`missing option --file: no operator has run with the state in ${stateDir}`)
}
