import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../support/tollway.ts'
import { previousRelease } from './previous-release.ts'

const execute = promisify(execFile)
const names = ['operator', 'ratelimit', 'broker', 'payments']
/** The tag that no other image has. */
const tag = previousRelease.commit.slice(0, 12)
const folder = join(root, `out/images-${previousRelease.version}`)

/** @param name `operator`, `ratelimit`, `broker` or `payments` */
export const previousImage = (name: string) => `tollway/${name}:${tag}`

/**
 * Creates the images of the previous release by the recipe of docs/operations/versions.md, unless they exist.
 * It takes half a minute of CPU time, at a low priority, so that tests can run meanwhile.
 *
 * @returns the archives, whose images have the tag of `previousImage` only
 */
export async function makePreviousImages(): Promise<readonly string[]> {
  if (!existsSync(folder)) await makeImages()
  return names.map(name => join(folder, `${name}.tar`))
}

/** A clone, because a work tree would stay registered in the repository when this is interrupted. */
async function makeImages(): Promise<void> {
  mkdirSync(join(folder, '..'), { recursive: true })
  const made = mkdtempSync(`${folder}-`)
  const source = join(made, 'source')
  const inSource = { cwd: source }
  const images = join(made, 'images')
  try {
    await execute('git', ['clone', '--quiet', '--shared', '--no-checkout', root, source])
    await execute('git', ['checkout', '--quiet', '--detach', previousRelease.commit], inSource)
    await installPackages(source)
    const node = join(source, 'node_modules/.bin/node')
    await execute('nice', ['-n', '19', node, 'images/main.ts', '--out', images, ...names], inSource)
    for (const name of names) await keepOneTag(join(images, `${name}.tar`), made)
    renameSync(images, folder)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

/** Links the packages of this checkout if they are exactly those of the release; else npm installs them. */
async function installPackages(source: string): Promise<void> {
  if (packagesOf(source) === packagesOf(root)) {
    await execute('cp', ['-al', join(root, 'node_modules'), join(source, 'node_modules')])
  } else {
    const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--prefer-offline']
    await execute('npm', ['ci', ...quietly], { cwd: source })
  }
}

interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly integrity?: string }>>
}

/** The places and checksums of all packages that are not part of the repository. */
function packagesOf(checkout: string): string {
  const { packages } = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as Lockfile
  const foreign = Object.entries(packages).filter(([, { integrity }]) => integrity !== undefined)
  return foreign.map(([place, { integrity }]) => `${place} ${integrity}\n`).join('')
}

interface ImageIndex {
  readonly manifests: readonly { readonly annotations: Readonly<Record<string, string>> }[]
}

/** Removes the other tags, such as `dev`, which the current images have, too. */
async function keepOneTag(archive: string, made: string): Promise<void> {
  const layout = mkdtempSync(join(made, 'layout-'))
  await execute('tar', ['-xf', archive, '-C', layout])
  const path = join(layout, 'index.json')
  const index = JSON.parse(readFileSync(path, 'utf8')) as ImageIndex
  const isKept = ({ annotations }: ImageIndex['manifests'][number]) =>
    annotations['org.opencontainers.image.ref.name'] === tag
  writeFileSync(path, JSON.stringify({ ...index, manifests: index.manifests.filter(isKept) }))
  // The list of tags for Docker. Without it the index decides.
  rmSync(join(layout, 'manifest.json'))
  await execute('tar', ['-cf', archive, '-C', layout, ...readdirSync(layout)])
}
