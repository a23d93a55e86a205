import { access } from 'node:fs/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Source } from '../../kinds/source.ts'
import { createFileTable } from './folder/file-table.ts'
import { type FolderLimits, folderLimits, scanFolder } from './folder/folder-scan.ts'
import { watchFolders } from './folder/folder-watch.ts'
import { createResourceSet } from './folder/resource-set.ts'

interface FileSourceOptions {
  /** A folder of manifests, or a single file. */
  readonly folder: string
  readonly clock: Clock
  /** Logs warnings, for example about ignored resources. Failures are also among the source's problems. */
  readonly onWarn?: Log['warn']
  /** How long a file must be unchanged before it is read, in milliseconds; 15 by default. */
  readonly settleMs?: number
  /** The interval in milliseconds of scans that no event triggers; 2,000 by default. */
  readonly pollMs?: number
  /** How long a resource must be missing before it counts as deleted, in milliseconds; 500 by default. */
  readonly deleteAfterMs?: number
  /** The maximum number of resources; 20,000 by default. */
  readonly maxResources?: number
  readonly limits?: FolderLimits
}

/** The shortest time between two scans, whatever the number of events. */
const minGapMs = 5

/**
 * Returns the resources of a watched folder. Each event triggers a scan of the whole folder, and files with a
 * changed fingerprint are read, so the result does not depend on the events. An unreadable file keeps its
 * last content in force, and a missing folder all contents. `start` rejects if the folder does not exist.
 */
export function createFileSource(options: FileSourceOptions): Source {
  const { folder, clock, onWarn = () => {}, settleMs = 15, pollMs = 2_000, deleteAfterMs = 500 } = options
  const { limits = folderLimits, maxResources = 20_000 } = options
  const files = createFileTable({ limits, settleMs, maxUnsettledMs: 5_000, maxReads: 32, onWarn })
  const resources = createResourceSet({ deleteAfterMs, maxResources })
  const listeners: (() => void)[] = []
  const started = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let eventCame = false
  let stopped = false

  const watch = watchFolders(() => {
    eventCame = true
    if (running === undefined) lookIn(0)
  }, onWarn)

  const lookIn = (delayMs: number) => {
    clearTimeout(timer)
    if (stopped) return
    timer = setTimeout(() => {
      running = scan().then(nextInMs => {
        running = undefined
        lookIn(eventCame ? minGapMs : nextInMs)
      })
    }, delayMs)
  }

  /**
   * Scans the folder and reads changed files. Resolves with the time until the next scan, which an event
   * makes earlier.
   */
  const scan = async (): Promise<number> => {
    eventCame = false
    const seen = await scanFolder(folder, limits, (directory, identity) => {
      if (!stopped) watch.see(directory, identity)
    })
    if (seen.complete) watch.forgetUnseen()
    const { settledInMs, problems } = await files.update(seen, clock.monotonicMs())
    if (stopped) return pollMs
    const allProblems = [...seen.problems, ...problems]
    const { changed, nextInMs = pollMs } = resources.update(
      files.contents(),
      allProblems,
      clock.monotonicMs(),
    )
    if (changed) for (const listener of listeners) listener()
    if (settledInMs === undefined) started.resolve()
    return Math.min(pollMs, nextInMs, settledInMs ?? pollMs)
  }

  return {
    async start() {
      await access(folder).catch(error => {
        throw new Error(`the folder of resources cannot be read: ${error.message}`, { cause: error })
      })
      lookIn(0)
      await started.promise
    },
    list: resources.list,
    problems: resources.problems,
    unread: resources.unread,
    onChange: listener => listeners.push(listener),
    async stop() {
      stopped = true
      clearTimeout(timer)
      watch.close()
      await running
      started.resolve()
    },
  }
}
