import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/tollway.ts'
import { previousRelease } from './previous-release.ts'

const names = ['operator', 'ratelimit', 'broker', 'payments']
/** The tag that no other image has: the current images have the tag `dev`, too. */
const tag = previousRelease.commit.slice(0, 12)
const folder = join(root, `out/images-${previousRelease.version}`)

/** @param name `operator`, `ratelimit`, `broker` or `payments` */
export const previousImage = (name: string) => `tollway/${name}:${tag}`

/**
 * Creates the images of the previous release by the recipe of docs/operations/versions.md, unless they exist.
 * It takes half a minute, and installs the packages of that release from the npm registry.
 *
 * @returns the archives. Load them before those of today, whose tag `dev` they have, too
 */
export function makePreviousImages(): readonly string[] {
  if (!existsSync(folder)) makeImages()
  return readdirSync(folder)
    .filter(name => name.endsWith('.tar'))
    .map(name => join(folder, name))
}

/** A clone, because a work tree would stay registered in the repository when this is interrupted. */
function makeImages(): void {
  mkdirSync(join(folder, '..'), { recursive: true })
  const made = mkdtempSync(`${folder}-`)
  const source = join(made, 'source')
  const inSource = { cwd: source, stdio: 'inherit' } as const
  const images = join(made, 'images')
  try {
    execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', root, source], { stdio: 'inherit' })
    execFileSync('git', ['checkout', '--quiet', '--detach', previousRelease.commit], inSource)
    execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], inSource)
    const node = join(source, 'node_modules/.bin/node')
    execFileSync(node, ['images/main.ts', '--out', images, ...names], inSource)
    renameSync(images, folder)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}
