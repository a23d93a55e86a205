import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { systemClock } from '@tollway/chassis/clock.ts'
import { openPglite } from '../../services/payments/storage/engine/pglite.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { root } from './tollway.ts'

const packageFile = join(root, 'node_modules/@electric-sql/pglite/package.json')
const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }
const template = join(root, 'out/pglite', version)

/**
 * Returns a new folder with an empty database. Creating one takes five seconds of CPU time, so it is created
 * once and then copied. The caller removes the folder.
 */
export async function newPgliteFolder(): Promise<string> {
  if (!existsSync(template)) await makeTemplate()
  const folder = temporaryFolder('tollway-pglite')
  cpSync(template, folder, { recursive: true })
  return folder
}

async function makeTemplate(): Promise<void> {
  mkdirSync(dirname(template), { recursive: true })
  const folder = mkdtempSync(`${template}-`)
  const storage = await openPglite({ folder, clock: systemClock, random: Math.random })
  await storage.close()
  // Another test may have created it meanwhile.
  if (existsSync(template)) rmSync(folder, { recursive: true })
  else renameSync(folder, template)
}
