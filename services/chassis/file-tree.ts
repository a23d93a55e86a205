import { chmodSync, copyFileSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The files, folders and links of an archive or image by their paths, without a leading `/`, sorted by code
 * units: a folder stands before its content. Everything belongs to root and has the epoch as its time, so the
 * same files give the same bytes wherever they are packed.
 */
export type FileTree = ReadonlyMap<string, TreeEntry>

export type TreeEntry =
  | { readonly kind: 'file'; readonly mode: number; readonly content: FileContent }
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }

/** Bytes, or a file that is read only when the tree is written or packed. */
export type FileContent = Uint8Array | { readonly path: string }

/** Entries in any order, with or without a leading `/`. `buildTree` adds the parent folders. */
export type TreeEntries = Iterable<readonly [string, TreeEntry]>

export function textFile(text: string, mode = 0o644): TreeEntry {
  return { kind: 'file', mode, content: Buffer.from(text) }
}

/** A file whose content is read later. For a link, that is the content of its target. */
export function fileCopy(path: string, mode = 0o644): TreeEntry {
  return { kind: 'file', mode, content: { path } }
}

/**
 * Merges the parts into one tree, and adds missing parent folders with mode 755.
 *
 * @throws Error when two parts differ in one path, a file is the parent of another, or a path has an empty,
 *   `.` or `..` segment
 */
export function buildTree(...parts: readonly TreeEntries[]): FileTree {
  const found = new Map<string, TreeEntry>()
  for (const part of parts) {
    for (const [written, entry] of part) {
      const path = written.replace(/^\//, '')
      if (path.split('/').some(name => name === '' || name === '.' || name === '..')) {
        throw new Error(`"${written}" is not the path of a file in an image`)
      }
      const other = found.get(path)
      if (other !== undefined && !isSame(other, entry)) {
        throw new Error(`two different files have the path /${path}`)
      }
      found.set(path, entry)
    }
  }
  for (const path of [...found.keys()]) addParents(found, path)
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function addParents(found: Map<string, TreeEntry>, path: string): void {
  for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
    const other = found.get(parent)
    if (other === undefined) found.set(parent, { kind: 'folder', mode: 0o755 })
    else if (other.kind !== 'folder')
      throw new Error(`/${parent} is not a folder, and /${path} must be inside it`)
  }
}

function isSame(a: TreeEntry, b: TreeEntry): boolean {
  if (a.kind === 'link' || b.kind === 'link') {
    return a.kind === 'link' && b.kind === 'link' && a.target === b.target
  }
  if (a.mode !== b.mode) return false
  if (a.kind === 'folder' || b.kind === 'folder') return a.kind === b.kind
  const { content: left } = a
  const { content: right } = b
  if ('path' in left || 'path' in right) {
    return 'path' in left && 'path' in right && left.path === right.path
  }
  return Buffer.compare(left, right) === 0
}

/** Replaces the folder by the entries of the tree. */
export function writeTree(tree: FileTree, folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [path, entry] of tree) writeEntry(join(folder, path), entry)
}

function writeEntry(path: string, entry: TreeEntry): void {
  if (entry.kind === 'link') {
    symlinkSync(entry.target, path)
    return
  }
  if (entry.kind === 'folder') mkdirSync(path)
  else if ('path' in entry.content) copyFileSync(entry.content.path, path)
  else writeFileSync(path, entry.content)
  // Unlike the calls above, `chmodSync` does not apply the umask.
  chmodSync(path, entry.mode)
  if (entry.kind === 'file') utimesSync(path, 0, 0)
}
