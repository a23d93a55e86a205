import { chmodSync, copyFileSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Files by their paths, without a leading `/`, parents before what is in them, sorted by code units. All
 * belong to root and are as old as the epoch, so that the same files are the same bytes wherever they are
 * packed.
 */
export type FileTree = ReadonlyMap<string, TreeEntry>

export type TreeEntry =
  | { readonly kind: 'file'; readonly mode: number; readonly content: FileContent }
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }

/** Bytes, or a file of this machine that is read when it is needed. */
export type FileContent = Uint8Array | { readonly path: string }

/** Entries by their paths, with or without a leading `/`, in any order and without their parents. */
export type TreeEntries = Iterable<readonly [string, TreeEntry]>

export function textFile(text: string, mode = 0o644): TreeEntry {
  return { kind: 'file', mode, content: Buffer.from(text) }
}

/** The content of a file of this machine; a link is followed. */
export function fileCopy(path: string, mode = 0o644): TreeEntry {
  return { kind: 'file', mode, content: { path } }
}

/**
 * Merges the parts into one tree, and adds the folders of its files.
 *
 * @throws Error when two entries of the same path differ, or a path leads out of the tree.
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

/** Replaces the folder by one with these files. */
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
  // The umask removes bits of a mode that is given at the creation.
  chmodSync(path, entry.mode)
  if (entry.kind === 'file') utimesSync(path, 0, 0)
}
