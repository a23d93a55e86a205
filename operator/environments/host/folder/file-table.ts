import type { Log } from '@tollway/chassis/log/log.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { SourceProblem } from '../../../kinds/source.ts'
import {
  type FileText,
  type FolderLimits,
  type FolderScan,
  readScannedFile,
  type ScannedFile,
} from './folder-scan.ts'
import { parseManifests } from './manifests.ts'
import type { FileContent } from './resource-set.ts'

interface FileTableOptions {
  readonly limits: FolderLimits
  /** How long a file must be unchanged before it is read. */
  readonly settleMs: number
  /** A file that keeps changing for longer than this is reported as a problem. */
  readonly maxUnsettledMs: number
  /** The highest number of simultaneous reads. */
  readonly maxReads: number
  /** Called once for each file with the ignored kinds in it, which belong to other API groups. */
  readonly onWarn: Log['warn']
}

interface FileTableUpdate {
  /**
   * The time until all changed files have settled, if they do not change again; undefined if none has
   * changed.
   */
  readonly settledInMs: number | undefined
  readonly problems: readonly SourceProblem[]
}

interface KnownFile extends FileContent {
  readonly fingerprint: string
  readonly ignored: string
}

interface Settling {
  readonly fingerprint: string
  readonly sinceMs: number
  readonly firstMs: number
}

type ReadText = Exclude<FileText, { readonly changed: true }>

/** Equals the fingerprint of no file, so that the file is read again. */
const noFingerprint = ''

/** Keeps the content of each file of a folder. A changed file is read when it has settled. */
export function createFileTable(options: FileTableOptions) {
  const { settleMs, maxUnsettledMs, maxReads, onWarn, limits } = options
  let known = new Map<string, KnownFile>()
  const settling = new Map<string, Settling>()

  /** Returns whether the file has been unchanged for `settleMs`. If it has changed, that time starts now. */
  const hasSettled = ({ path, fingerprint }: ScannedFile, nowMs: number): boolean => {
    const before = settling.get(path)
    if (before?.fingerprint === fingerprint) return nowMs - before.sinceMs >= settleMs
    settling.set(path, { fingerprint, sinceMs: nowMs, firstMs: before?.firstMs ?? nowMs })
    return settleMs === 0
  }

  const read = async (file: ScannedFile, nowMs: number): Promise<void> => {
    const text = await readScannedFile(file, limits)
    if ('changed' in text) {
      const firstMs = settling.get(file.path)?.firstMs ?? nowMs
      settling.set(file.path, { fingerprint: noFingerprint, sinceMs: nowMs, firstMs })
      return
    }
    settling.delete(file.path)
    const now = toKnownFile(file, text)
    if (now.ignored !== '' && now.ignored !== known.get(file.path)?.ignored)
      onWarn('ignore resources', { file: file.path, ignored: now.ignored, read: `${apiGroup} and Secrets` })
    known.set(file.path, now)
  }

  const forget = (scan: FolderScan) => {
    for (const path of settling.keys()) if (!scan.files.has(path)) settling.delete(path)
    if (!scan.complete) return
    for (const path of known.keys()) if (!scan.files.has(path)) known.delete(path)
  }

  const waiting = (nowMs: number): FileTableUpdate => {
    const problems: SourceProblem[] = []
    let settledInMs: number | undefined
    for (const [path, { sinceMs, firstMs }] of settling) {
      const leftMs = Math.max(0, sinceMs + settleMs - nowMs)
      if (nowMs - firstMs <= maxUnsettledMs) settledInMs = Math.min(settledInMs ?? leftMs, leftMs)
      else problems.push({ origin: path, message: `has not stopped changing for over ${maxUnsettledMs} ms` })
    }
    return { settledInMs, problems }
  }

  return {
    /** Updates the contents after a scan. `nowMs` is monotonic. */
    async update(scan: FolderScan, nowMs: number): Promise<FileTableUpdate> {
      forget(scan)
      const ready: ScannedFile[] = []
      for (const file of scan.files.values()) {
        if (known.get(file.path)?.fingerprint === file.fingerprint) settling.delete(file.path)
        else if (hasSettled(file, nowMs)) ready.push(file)
      }
      const isNew = ready.some(({ path }) => !known.has(path))
      for (let at = 0; at < ready.length; at += maxReads) {
        await Promise.all(ready.slice(at, at + maxReads).map(file => read(file, nowMs)))
      }
      if (isNew) known = new Map([...known].sort(([a], [b]) => (a < b ? -1 : 1)))
      return waiting(nowMs)
    },
    contents: (): Iterable<FileContent> => known.values(),
  }
}

/** The warning about a file names at most this many ignored kinds. */
const maxIgnoredNames = 5

function toKnownFile({ path, fingerprint }: ScannedFile, text: ReadText): KnownFile {
  const nothing = { path, manifests: [], complete: false, ignored: '' }
  if ('error' in text) {
    return { ...nothing, fingerprint: noFingerprint, problems: [{ origin: path, message: text.error }] }
  }
  const read = parseManifests(text.text, path)
  if ('error' in read) return { ...nothing, fingerprint, problems: [read.error] }
  const { manifests, problems, ignored } = read
  return {
    path,
    fingerprint,
    manifests,
    complete: problems.length === 0,
    problems,
    ignored: ignored.slice(0, maxIgnoredNames).join(', '),
  }
}
