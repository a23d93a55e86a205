import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { buildTree, type FileTree, fileCopy, type TreeEntries, textFile } from '@tollway/chassis/file-tree.ts'
import { type Component, licenseEntries } from './components/component.ts'
import { debianComponents } from './components/debian-components.ts'
import { npmComponent } from './components/npm-components.ts'
import { sharedLibraries } from './components/shared-libraries.ts'

/** The user id and group id of every image's process. */
export const nonRoot = 65_532

/** The layer that all images of Tollway share: Node, and the system files and libraries that Node needs. */
export interface NodeLayer {
  readonly tree: FileTree
  readonly components: readonly Component[]
}

export const nodePath = '/usr/local/bin/node'

/**
 * Returns the layer with Node exactly as it was published to npm. Stripping the binary would save 18 of 126
 * MB, but change its published checksum.
 *
 * @throws Error if the Node of this platform is not installed
 */
export function nodeLayer(root: string): NodeLayer {
  const folder = `node_modules/node-${process.platform}-${process.arch}`
  const node = join(root, folder, 'bin/node')
  if (!existsSync(node)) throw new Error(`${folder} does not exist: run npm ci, on Linux`)
  const libraries = sharedLibraries([node])
  const components = [npmComponent(root, folder), ...debianComponents(libraries)]
  const files: TreeEntries = [
    [nodePath, fileCopy(node, 0o755)],
    // Node's built-in certificates, for libraries that read them from this usual path.
    ['etc/ssl/certs/ca-certificates.crt', textFile(`${rootCertificates.join('\n')}\n`)],
  ]
  const tree = buildTree(systemFiles, libraryEntries(libraries), files, licenseEntries(components))
  return { tree, components }
}

/**
 * Returns entries for shared libraries at the same paths as on this machine, since programs load the
 * libraries from there.
 */
export function libraryEntries(libraries: readonly string[]): TreeEntries {
  return libraries.map(path => [path, fileCopy(path, 0o755)] as const)
}

/** The files that a C library expects of a system, and a folder that every user may write to. */
export const systemFiles: TreeEntries = [
  ['tmp', { kind: 'folder', mode: 0o1777 }],
  [
    'etc/passwd',
    textFile(`root:x:0:0:root:/:/nologin\nnonroot:x:${nonRoot}:${nonRoot}:nonroot:/tmp:/nologin\n`),
  ],
  ['etc/group', textFile(`root:x:0:\nnonroot:x:${nonRoot}:\n`)],
  // Container runtimes replace this file.
  ['etc/hosts', textFile('127.0.0.1 localhost\n::1 localhost\n')],
  ['etc/nsswitch.conf', textFile('hosts: files dns\n')],
]
