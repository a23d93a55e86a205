import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Component } from './component.ts'

interface LockedPackage {
  readonly version?: string
  readonly license?: string
  readonly integrity?: string
}

const licenseFile = /^(licen[cs]e|notice|copying)([.-].*)?$/i

/**
 * Returns the third-party packages to which these source files belong, with the versions of the lockfile.
 *
 * @param inputs paths relative to the root; those outside of node_modules are Tollway's own and are ignored
 * @throws Error for a package without an entry in the lockfile, or without a license
 */
export function npmComponents(root: string, inputs: readonly string[]): readonly Component[] {
  const folders = new Set(
    inputs.flatMap(path => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path) ?? []),
  )
  const locked = readLock(root)
  const components = [...folders].sort().map(folder => npmComponent(root, folder, locked))
  // npm may install the same version into several folders.
  return [...new Map(components.map(component => [component.purl, component])).values()]
}

/** Returns the packages of the lockfile by their folders: `node_modules/pino`. */
function readLock(root: string): ReadonlyMap<string, LockedPackage> {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  return new Map(Object.entries(lock.packages))
}

export function npmComponent(root: string, folder: string, locked = readLock(root)): Component {
  const { version, license, integrity } = locked.get(folder) ?? {}
  if (version === undefined) throw new Error(`package-lock.json has no ${folder}: run npm ci`)
  const name = folder.replace(/^.*node_modules\//, '')
  const licenseFiles = readdirSync(join(root, folder)).filter(file => licenseFile.test(file))
  if (license === undefined && licenseFiles.length === 0) {
    throw new Error(`${folder} names no license: it must not be distributed`)
  }
  const sha512 = /^sha512-(\S+)$/.exec(integrity ?? '')?.[1]
  return {
    name,
    version,
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    licenseFiles: licenseFiles.sort().map(file => join(root, folder, file)),
    ...(license === undefined ? {} : { license }),
    ...(sha512 === undefined ? {} : { sha512: Buffer.from(sha512, 'base64').toString('hex') }),
  }
}
