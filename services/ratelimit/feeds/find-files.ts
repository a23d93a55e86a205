import { type BigIntStats, readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Problem } from '../rules/config.ts'

/** A configuration file as it was found. */
export interface FoundFile {
  readonly path: string
  /** Below the watched folder, usually with dots for slashes: the name that its problems are told with. */
  readonly key: string
  readonly bytes: number
  /** Changes whenever the content may have. */
  readonly fingerprint: string
}

export interface FoundFiles {
  /** Folder by folder, in the order of their names. */
  readonly files: readonly FoundFile[]
  /** What could not be looked at: a configuration without it would not be whole. */
  readonly problems: readonly Problem[]
  /** One for each file that is no YAML. */
  readonly warnings: readonly Problem[]
}

export interface FindOptions {
  /** What keys begin with: `config.`, or nothing. */
  readonly keyPrefix: string
  /** What stands for the slashes of a path; a dot when left out. */
  readonly keySeparator?: '.' | '/'
  readonly ignoreDotFiles: boolean
}

/** Files and folders below one configuration folder, all together. */
export const maxEntries = 10_000

/**
 * Every YAML file below a folder. Links are followed, and a folder that several of them lead to is read once.
 * Names that begin with two dots are left out: there a ConfigMap's mount keeps what it shows by links beside
 * them.
 */
export function findFiles(folder: string, options: FindOptions): FoundFiles {
  const { keyPrefix, keySeparator = '.', ignoreDotFiles } = options
  const files: FoundFile[] = []
  const problems: Problem[] = []
  const warnings: Problem[] = []
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
    // A link to nothing, or what was removed in between, is not there.
    const stat = statSync(path, { throwIfNoEntry: false, bigint: true })
    const key = prefix + name
    if (stat === undefined) return
    if (stat.isDirectory()) visitFolder(path, `${key}${keySeparator}`)
    else if (!/\.ya?ml$/.test(name)) {
      warnings.push({ source: key, path: '', message: 'the file is not read: only *.yaml and *.yml are' })
    } else if (stat.isFile()) {
      files.push({ path, key, bytes: Number(stat.size), fingerprint: `${path} ${identityOf(stat)}` })
    } else problems.push({ source: key, path: '', message: 'it is no regular file' })
  }

  function orProblem(path: string, look: (path: string) => void): void {
    try {
      look(path)
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

/** Changes with every write, chmod and replacement. */
export function identityOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ')
}
