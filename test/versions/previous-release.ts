import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkOut, checkoutOf, missingHistory } from '../support/earlier-commit.ts'
import { root } from '../support/tollway.ts'

/** The release whose processes, chart and data must work with the current version. */
export const previousRelease = {
  version: '0.1.0',
  /** The tag `v0.1.0`. Tests find it by its id, since a copy of the repository may have no tags. */
  commit: '1559eccc2e1c278f7300676fe16ab0d345d5b8ab',
}

/** The reason to skip tests that run its programs; false when this checkout has its commit. */
export const missingPreviousRelease = () => missingHistory(previousRelease.commit)

/** Creates the folder of its programs, unless it exists. */
export const checkOutPreviousRelease = () => checkOut(previousRelease.commit)

/** The path of a file of it, such as `services/ratelimit/main.ts`. */
export const fileOfPreviousRelease = (path: string) => join(checkoutOf(previousRelease.commit), path)

const archive = fileURLToPath(new URL(`testdata/tollway-${previousRelease.version}.tgz`, import.meta.url))

/** Unpacks its chart, which needs no history of the repository. Returns the folder. */
export function previousChart(): string {
  const folder = join(root, 'out/previous-version', `chart-${previousRelease.version}`)
  if (!existsSync(folder)) {
    mkdirSync(join(folder, '..'), { recursive: true })
    const made = mkdtempSync(`${folder}-`)
    execFileSync('tar', ['-xzf', archive, '-C', made])
    if (existsSync(folder)) rmSync(made, { recursive: true })
    else renameSync(made, folder)
  }
  return join(folder, 'tollway')
}
