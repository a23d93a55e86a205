import { type BigIntStats, constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import type { SourceProblem } from '../../../sources/source.ts'

/** A manifest file at the time of a scan. */
export interface SeenFile {
  /** The path below the folder, with `/`. Messages show it, and it decides the order of files. */
  readonly path: string
  readonly absolute: string
  /** A fingerprint that changes when the file is written, replaced or gets other permissions. */
  readonly fingerprint: string
}

export interface FolderLook {
  /** The files by path, in the order of the paths. */
  readonly files: ReadonlyMap<string, SeenFile>
  /** False if a file or a folder could not be read. Then a file that was not found may exist. */
  readonly complete: boolean
  readonly problems: readonly SourceProblem[]
}

export interface FolderLimits {
  readonly maxFiles: number
  readonly maxDirectories: number
  /** The maximum depth of folders; a symbolic link counts as the folder to which it points. */
  readonly maxDepth: number
  readonly maxFileBytes: number
  /** The maximum size of all files together. */
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
 * Called with a directory and its `device:inode` before its entries are read, so that a watcher that is added
 * then misses no change.
 */
export type SeeDirectory = (absolute: string, identity: string) => void

/**
 * Scans a folder and its subfolders for manifest files (`.yaml`, `.yml`), or reads the state of a single file
 * of any name. Names that begin with a dot are ignored, and symbolic links are followed: the files of a
 * mounted ConfigMap are found once, by the links with their names. A file or directory with several names is
 * found once, by the first one.
 */
export async function lookAtFolder(
  root: string,
  limits: FolderLimits,
  see: SeeDirectory,
): Promise<FolderLook> {
  const look: Look = { root, limits, see, found: [], visited: new Set(), problems: new Map() }
  const info = await statOf(look, root)
  if (info === undefined) tell(look, root, 'is not there; what was read of it before stays in force')
  else if (info.isDirectory()) await visit(look, root, '', 0)
  else await seeFile(look, root, basename(root), true)
  return conclude(look)
}

/** The results of a scan so far. */
interface Look {
  readonly root: string
  readonly limits: FolderLimits
  readonly see: SeeDirectory
  readonly found: { readonly file: SeenFile; readonly identity: string; readonly bytes: number }[]
  readonly visited: Set<string>
  /** Problems by text, so that a limit is reported once. */
  readonly problems: Map<string, SourceProblem>
}

function tell(look: Look, origin: string, message: string): void {
  look.problems.set(`${origin}: ${message}`, { origin, message })
}

function tellTooMany(look: Look, what: string): void {
  tell(look, look.root, `has more than the ${what} that are allowed; the rest is not read`)
}

/** Returns undefined if the file does not exist, or after reporting why it cannot be examined. */
async function statOf(look: Look, absolute: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(absolute, { bigint: true })
  } catch (error) {
    if (!isGone(error))
      tell(look, relativeTo(look.root, absolute), `cannot be looked at: ${errorText(error)}`)
    return undefined
  }
}

async function visit(look: Look, directory: string, path: string, depth: number): Promise<void> {
  const { limits, visited } = look
  const info = await statOf(look, directory)
  if (info === undefined || visited.has(identityOf(info))) return
  if (depth > limits.maxDepth) {
    return tell(
      look,
      path,
      `lies deeper than the ${limits.maxDepth} folders that are allowed; it is not read`,
    )
  }
  if (visited.size >= limits.maxDirectories) return tellTooMany(look, `${limits.maxDirectories} folders`)
  visited.add(identityOf(info))
  look.see(directory, identityOf(info))
  const { files, folders } = await list(look, directory)
  const seen = files.slice(0, limits.maxFiles + 1)
  await Promise.all(seen.map(({ name, link }) => seeFile(look, join(directory, name), path + name, link)))
  for (const name of folders) await visit(look, join(directory, name), `${path}${name}/`, depth + 1)
}

/** Returns the entries in the order of their names. A symbolic link counts as its target. */
async function list(look: Look, directory: string) {
  const files: { readonly name: string; readonly link: boolean }[] = []
  const folders: string[] = []
  for (const entry of await entriesOf(look, directory)) {
    const { name } = entry
    if (name.startsWith('.')) continue
    const link = entry.isSymbolicLink()
    const isFolder = link ? (await statOf(look, join(directory, name)))?.isDirectory() : entry.isDirectory()
    if (isFolder) folders.push(name)
    else if (/\.ya?ml$/.test(name)) files.push({ name, link })
  }
  return { files, folders }
}

async function entriesOf(look: Look, directory: string): Promise<readonly Dirent[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    if (!isGone(error)) tell(look, relativeTo(look.root, directory), `cannot be listed: ${errorText(error)}`)
    return []
  }
}

/** Reports a link whose target does not exist, unless the link has been deleted since. */
async function seeDangling(look: Look, absolute: string, path: string): Promise<void> {
  const link = await lstat(absolute).catch(() => undefined)
  if (link?.isSymbolicLink()) tell(look, path, 'is a link to something that is not there')
}

async function seeFile(look: Look, absolute: string, path: string, mayBeLink: boolean): Promise<void> {
  const info = await statOf(look, absolute)
  if (info === undefined) return mayBeLink ? seeDangling(look, absolute, path) : undefined
  if (!info.isFile()) return tell(look, path, 'is neither a file nor a folder')
  if (look.found.length >= look.limits.maxFiles) return tellTooMany(look, `${look.limits.maxFiles} files`)
  const file = { path, absolute, fingerprint: fingerprintOf(info) }
  look.found.push({ file, identity: identityOf(info), bytes: Number(info.size) })
  if (!mayBeLink) return
  // A write causes an event in the directory whose name for the file was used.
  const target = await realpath(absolute).catch(() => absolute)
  for (const directory of new Set([dirname(absolute), dirname(target)])) {
    const about = await statOf(look, directory)
    if (about !== undefined) look.see(directory, identityOf(about))
  }
}

function conclude(look: Look): FolderLook {
  const { found, limits, problems } = look
  const files = new Map<string, SeenFile>()
  const identities = new Set<string>()
  let totalBytes = 0
  for (const { file, identity, bytes } of found.sort((a, b) => (a.file.path < b.file.path ? -1 : 1))) {
    if (identities.has(identity)) continue
    identities.add(identity)
    // A single file that is too large is rejected when it is read.
    if (bytes <= limits.maxFileBytes) totalBytes += bytes
    if (totalBytes > limits.maxTotalBytes) {
      tellTooMany(look, `${limits.maxTotalBytes} bytes`)
      break
    }
    files.set(file.path, file)
  }
  return { files, complete: problems.size === 0, problems: [...problems.values()] }
}

export type FileText =
  | { readonly text: string }
  /** The reason for which the file cannot be read, for people. */
  | { readonly error: string }
  /** The file changed while it was read, and has to be read again. */
  | { readonly changed: true }

/** Reads a file only if it is the one of the scan, and still is when all of it has been read. */
export async function readSeenFile(file: SeenFile, limits: FolderLimits): Promise<FileText> {
  let handle: FileHandle | undefined
  try {
    // A pipe in its place would block the open until a writer opens it.
    handle = await open(file.absolute, constants.O_RDONLY | constants.O_NONBLOCK)
    const before = await handle.stat({ bigint: true })
    if (fingerprintOf(before) !== file.fingerprint) return { changed: true }
    if (before.size > limits.maxFileBytes) {
      return { error: `has ${before.size} bytes; at most ${limits.maxFileBytes} are allowed in a file` }
    }
    const bytes = Buffer.alloc(Number(before.size))
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0)
    const after = await handle.stat({ bigint: true })
    if (bytesRead !== bytes.length || fingerprintOf(after) !== file.fingerprint) return { changed: true }
    return decode(bytes)
  } catch (error) {
    return isGone(error) ? { changed: true } : { error: `cannot be read: ${errorText(error)}` }
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
 * Returns the fingerprint. Its change time detects other permissions, and a new content of the same length
 * and time.
 */
function fingerprintOf(info: BigIntStats): string {
  return `${info.mtimeNs} ${info.ctimeNs} ${info.size} ${identityOf(info)}`
}

function identityOf(info: BigIntStats): string {
  return `${info.dev}:${info.ino}`
}

function relativeTo(root: string, absolute: string): string {
  return relative(root, absolute) || root
}

function isGone(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return code === 'ENOENT' || code === 'ENOTDIR'
}

/** Returns `EACCES: permission denied`, without the path, which the reader already has. */
function errorText(error: unknown): string {
  return String((error as Error).message).split(',', 1)[0] ?? ''
}
