import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { bundle } from '../../images/bundle.ts'
import { bundleName } from './programs.ts'

/** `node test/support/bundle-programs.ts FOLDER` writes the bundles of `programs.ts` into the folder. */
const root = join(import.meta.dirname, '../..')
const command = 'operator/cli/tollway.ts'
const [folder = ''] = process.argv.slice(2)
if (folder === '') throw new Error('the folder of the bundles is missing')

// The command starts every service, so its bundle has all programs.
const { files } = await bundle(root, bundleName(command), command)
rmSync(join(root, folder), { recursive: true, force: true })
for (const [name, content] of files) {
  const path = join(root, folder, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}
