import { type BigIntStats, constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import type { SourceProblem } from '../../../kinds/source.ts'

export interface ScannedFile {
  /** The path below the folder, with `/`. It is shown in messages, and files are sorted by it. */
  readonly path: string
  readonly absolute: string
  /** Changes when the file is written, replaced, or gets other permissions. */
  readonly fingerprint: string
}

export interface FolderScan {
  /** The files by path, in the order of their paths. */
  readonly files: ReadonlyMap<string, ScannedFile>
  /** False if a file or folder could not be read. Then a file that was not found may exist. */
  readonly complete: boolean
  readonly problems: readonly SourceProblem[]
}

export interface FolderLimits {
  readonly maxFiles: number
  readonly maxDirectories: number
  /** The maximum depth of folders. A symbolic link counts as the folder to which it points. */
  readonly maxDepth: number
  readonly maxFileBytes: number
  readonly maxTotalBytes: number
}

export const folderLimits: FolderLimits = {
  maxFiles: 10_000,
  maxDirectories: 1_000,
  maxDepth: 16,
  maxFileBytes: 2 * 1024 * 1024,
  maxTotalBytes: 64 * 1024 * 1024,
}

/**
 * Called with a directory and its `device:inode` before the entries are read, so that a watcher that starts
 * in this call misses no change.
 */
type OnDirectory = (absolute: string, identity: string) => void

/**
 * Scans a folder and its subfolders for manifest files (`.yaml`, `.yml`). A `root` that is a single file may
 * have any name. Names that start with a dot are ignored, and symbolic links are followed, so the files of a
 * mounted ConfigMap are found once, by the links with their names. A file or directory with several paths is
 * found once, by the first path.
 */
export async function scanFolder(root: string, limits: FolderLimits, see: OnDirectory): Promise<FolderScan> {
  const scan: Scan = { root, limits, see, found: [], visited: new Set(), problems: new Map() }
  const info = await statOrReport(scan, root)
  if (info === undefined) report(scan, root, 'is not there; what was read of it before stays in force')
  else if (info.isDirectory()) await visit(scan, root, '', 0)
  else await addFile(scan, root, basename(root), true)
  return conclude(scan)
}

interface Scan {
  readonly root: string
  readonly limits: FolderLimits
  readonly see: OnDirectory
  readonly found: { readonly file: ScannedFile; readonly identity: string; readonly bytes: number }[]
  readonly visited: Set<string>
  /** Problems by their text, so that an exceeded limit is reported once. */
  readonly problems: Map<string, SourceProblem>
}

function report(scan: Scan, origin: string, message: string): void {
  scan.problems.set(`${origin}: ${message}`, { origin, message })
}

function reportTooMany(scan: Scan, what: string): void {
  report(scan, scan.root, `has more than the ${what} that are allowed; the rest is not read`)
}

/** Returns undefined if the file does not exist; also if it cannot be examined, which is then reported. */
async function statOrReport(scan: Scan, absolute: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(absolute, { bigint: true })
  } catch (error) {
    if (!isMissingPath(error))
      report(scan, relativeTo(scan.root, absolute), `cannot be looked at: ${errorText(error)}`)
    return undefined
  }
}

async function visit(scan: Scan, directory: string, path: string, depth: number): Promise<void> {
  const { limits, visited } = scan
  const info = await statOrReport(scan, directory)
  if (info === undefined || visited.has(formatIdentity(info))) return
  if (depth > limits.maxDepth) {
    return report(
      scan,
      path,
      `lies deeper than the ${limits.maxDepth} folders that are allowed; it is not read`,
    )
  }
  if (visited.size >= limits.maxDirectories) return reportTooMany(scan, `${limits.maxDirectories} folders`)
  visited.add(formatIdentity(info))
  scan.see(directory, formatIdentity(info))
  const { files, folders } = await list(scan, directory)
  const seen = files.slice(0, limits.maxFiles + 1)
  await Promise.all(seen.map(({ name, link }) => addFile(scan, join(directory, name), path + name, link)))
  for (const name of folders) await visit(scan, join(directory, name), `${path}${name}/`, depth + 1)
}

/** Returns the entries in the order of their names. A symbolic link counts as its target. */
async function list(scan: Scan, directory: string) {
  const files: { readonly name: string; readonly link: boolean }[] = []
  const folders: string[] = []
  for (const entry of await listOrReport(scan, directory)) {
    const { name } = entry
    if (name.startsWith('.')) continue
    const link = entry.isSymbolicLink()
    const isFolder = link
      ? (await statOrReport(scan, join(directory, name)))?.isDirectory()
      : entry.isDirectory()
    if (isFolder) folders.push(name)
    else if (/\.ya?ml$/.test(name)) files.push({ name, link })
  }
  return { files, folders }
}

async function listOrReport(scan: Scan, directory: string): Promise<readonly Dirent[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    if (!isMissingPath(error))
      report(scan, relativeTo(scan.root, directory), `cannot be listed: ${errorText(error)}`)
    return []
  }
}

/** Reports a link whose target does not exist, unless the link itself has been deleted. */
async function reportDanglingLink(scan: Scan, absolute: string, path: string): Promise<void> {
  const link = await lstat(absolute).catch(() => undefined)
  if (link?.isSymbolicLink()) report(scan, path, 'is a link to something that is not there')
}

async function addFile(scan: Scan, absolute: string, path: string, mayBeLink: boolean): Promise<void> {
  const info = await statOrReport(scan, absolute)
  if (info === undefined) return mayBeLink ? reportDanglingLink(scan, absolute, path) : undefined
  if (!info.isFile()) return report(scan, path, 'is neither a file nor a folder')
  if (scan.found.length >= scan.limits.maxFiles) return reportTooMany(scan, `${scan.limits.maxFiles} files`)
  const file = { path, absolute, fingerprint: makeFingerprint(info) }
  scan.found.push({ file, identity: formatIdentity(info), bytes: Number(info.size) })
  if (!mayBeLink) return
  // A write causes an event only in the directory through which the file was written, so both are watched.
  const target = await realpath(absolute).catch(() => absolute)
  for (const directory of new Set([dirname(absolute), dirname(target)])) {
    const about = await statOrReport(scan, directory)
    if (about !== undefined) scan.see(directory, formatIdentity(about))
  }
}

function conclude(scan: Scan): FolderScan {
  const { found, limits, problems } = scan
  const files = new Map<string, ScannedFile>()
  const identities = new Set<string>()
  let totalBytes = 0
  for (const { file, identity, bytes } of found.sort((a, b) => (a.file.path < b.file.path ? -1 : 1))) {
    if (identities.has(identity)) continue
    identities.add(identity)
    // A file that is too large is rejected when it is read, and does not count here.
    if (bytes <= limits.maxFileBytes) totalBytes += bytes
    if (totalBytes > limits.maxTotalBytes) {
      reportTooMany(scan, `${limits.maxTotalBytes} bytes`)
      break
    }
    files.set(file.path, file)
  }
  return { files, complete: problems.size === 0, problems: [...problems.values()] }
}

export type FileText =
  | { readonly text: string }
  /** Why the file cannot be read, as a text for people. */
  | { readonly error: string }
  /** The file changed while it was read, and must be read again. */
  | { readonly changed: true }

/**
 * Reads a file. Reports it as changed unless its fingerprint is the scanned one both before and after the
 * read.
 */
export async function readScannedFile(file: ScannedFile, limits: FolderLimits): Promise<FileText> {
  let handle: FileHandle | undefined
  try {
    // If a pipe has replaced the file, a blocking open would wait for a writer.
    handle = await open(file.absolute, constants.O_RDONLY | constants.O_NONBLOCK)
    const before = await handle.stat({ bigint: true })
    if (makeFingerprint(before) !== file.fingerprint) return { changed: true }
    if (before.size > limits.maxFileBytes) {
      return { error: `has ${before.size} bytes; at most ${limits.maxFileBytes} are allowed in a file` }
    }
    const bytes = Buffer.alloc(Number(before.size))
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0)
    const after = await handle.stat({ bigint: true })
    if (bytesRead !== bytes.length || makeFingerprint(after) !== file.fingerprint) return { changed: true }
    return decode(bytes)
  } catch (error) {
    return isMissingPath(error) ? { changed: true } : { error: `cannot be read: ${errorText(error)}` }
  } finally {
    await handle?.close()
  }
}

function decode(bytes: Buffer): FileText {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { error: 'is not UTF-8 text' }
  }
}

/**
 * Returns the fingerprint. It includes the change time, which changes even if a new content has the same
 * length and modification time, or only the permissions change.
 */
function makeFingerprint(info: BigIntStats): string {
  return `${info.mtimeNs} ${info.ctimeNs} ${info.size} ${formatIdentity(info)}`
}

function formatIdentity(info: BigIntStats): string {
  return `${info.dev}:${info.ino}`
}

function relativeTo(root: string, absolute: string): string {
  return relative(root, absolute) || root
}

function isMissingPath(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return code === 'ENOENT' || code === 'ENOTDIR'
}

/** Returns `EACCES: permission denied`, without the path, which the message shows already. */
function errorText(error: unknown): string {
  return String((error as Error).message).split(',', 1)[0] ?? ''
}
