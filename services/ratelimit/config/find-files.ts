import { type BigIntStats, readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigProblem } from '../rules/model.ts'

export interface FoundFile {
  readonly path: string
  /** The path below the folder, usually with dots for slashes: the file's name in problems. */
  readonly key: string
  readonly bytes: number
  /** Changes whenever the content may have changed. */
  readonly fingerprint: string
}

export interface FoundFiles {
  /** The YAML files, sorted by folder and name. */
  readonly files: readonly FoundFile[]
  /** The files and folders that cannot be read: a configuration without them would be incomplete. */
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

interface FindOptions {
  /** The text that every key begins with, such as `config.`; may be empty. */
  readonly keyPrefix: string
  /** Replaces the slashes of a path. Defaults to a dot. */
  readonly keySeparator?: '.' | '/'
  readonly ignoreDotFiles: boolean
}

/** At most this many files and folders are allowed below one configuration folder. */
const maxEntries = 10_000

/**
 * Finds every YAML file below a folder. Links are followed, and a folder behind several links is read once.
 * Names that begin with two dots are ignored: the mount of a ConfigMap keeps its files in such folders, and
 * publishes them by links beside the folders.
 */
export function findFiles(folder: string, options: FindOptions): FoundFiles {
  const { keyPrefix, keySeparator = '.', ignoreDotFiles } = options
  const files: FoundFile[] = []
  const problems: ConfigProblem[] = []
  const warnings: ConfigProblem[] = []
  const visited = new Set<string>()
  let entries = 0

  function visitFolder(path: string, prefix: string): void {
    const real = realpathSync(path)
    if (visited.has(real)) return
    visited.add(real)
    for (const name of readdirSync(path).sort()) {
      if (name.startsWith('..') || (ignoreDotFiles && name.startsWith('.'))) continue
      entries += 1
      if (entries > maxEntries) return
      orProblem(join(path, name), child => visit(child, prefix, name))
    }
  }

  function visit(path: string, prefix: string, name: string): void {
    // A dangling link, or a file that was removed meanwhile, is ignored.
    const stat = statSync(path, { throwIfNoEntry: false, bigint: true })
    const key = prefix + name
    if (stat === undefined) return
    if (stat.isDirectory()) visitFolder(path, `${key}${keySeparator}`)
    else if (!/\.ya?ml$/.test(name)) {
      warnings.push({ source: key, path: '', message: 'the file is not read: only *.yaml and *.yml are' })
    } else if (stat.isFile()) {
      files.push({ path, key, bytes: Number(stat.size), fingerprint: `${path} ${fingerprint(stat)}` })
    } else problems.push({ source: key, path: '', message: 'it is not a regular file' })
  }

  function orProblem(path: string, visitPath: (path: string) => void): void {
    try {
      visitPath(path)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? (error as Error).message
      problems.push({ source: path, path: '', message: `cannot be read: ${code}` })
    }
  }

  orProblem(folder, path => visitFolder(path, keyPrefix))
  if (entries > maxEntries) {
    problems.push({ source: folder, path: '', message: `has more than ${maxEntries} files and folders` })
  }
  return { files, problems, warnings }
}

/** Returns a text that changes with every write, chmod and replacement. */
export function fingerprint({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ')
}
