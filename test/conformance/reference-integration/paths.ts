import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../../support/tollway.ts'

/** The reference's module with the runner of this folder, as created by `build.ts`. */
export const moduleCopy = join(root, 'out/reference-integration')

/** The compiled tests. */
export const builtTests = join(root, 'out/bin/reference-integration.test')

/**
 * Returns the folder of the reference's module in Go's cache, in the version that the differential tests pin.
 * Needs Go.
 */
export function referenceFolder(): string {
  const args = ['list', '-m', '-f', '{{.Dir}}', 'github.com/envoyproxy/ratelimit']
  const cwd = join(root, 'test/differential/reference')
  const folder = execFileSync('go', args, { cwd, encoding: 'utf8' }).trim()
  if (folder === '')
    throw new Error('the module of the reference is not downloaded: build the reference first')
  return folder
}
