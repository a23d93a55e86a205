import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from '@tollway/chassis/is-object.ts'
import { mayRun, readStatusReport } from '../../environments/host/status-file.ts'
import { isOurs } from '../../kinds/registry.ts'
import { readFolder } from '../read-folder.ts'
import { Bundle, countProblems } from './bundle.ts'

const answerMs = 5_000

/** @throws Error if no operator has used the state folder */
export async function collectFromMachine(stateDir: string): Promise<Bundle> {
  const report = readStatusReport(stateDir)
  if (report === undefined)
    throw new Error(
      `no operator has run with the state in ${stateDir}; name the state folder with --state-dir`,
    )
  const content = await readFolder(undefined, stateDir, { printError() {} }).catch((error: Error) => error)
  const secrets = content instanceof Error ? [] : content.resources.filter(({ kind }) => kind === 'Secret')
  const bundle = new Bundle([
    ...readStateSecrets(stateDir),
    ...secrets.flatMap(({ spec }) => listTexts(spec)),
  ])
  await bundle.addObject('versions.json', async () => ({ node: process.version, platform: process.platform }))
  await bundle.addObject('resources.json', async () => {
    if (content instanceof Error) throw content
    return content.resources.filter(isOurs)
  })
  await bundle.addObject('status.json', async () => report)
  await bundle.addObject('problems.json', async () => countProblems(report))
  await bundle.addObject('operator/status.json', async () => {
    if (!mayRun(report)) throw new Error('the operator is not running')
    const signal = AbortSignal.timeout(answerMs)
    return (await fetch(`${report.addresses['operator']}/status`, { signal })).json()
  })
  await bundle.addObject('remembered.json', async () => JSON.parse(read(stateDir, 'remembered.json')))
  for (const name of ['tollway.log', 'tollway.log.1'])
    await bundle.addText(`logs/${name}`, async () => read(stateDir, name))
  bundle.leaveOut('settings', 'the operator on one machine does not store its options')
  bundle.leaveOut(
    'certificates',
    'the operator on one machine serves its feed on the loopback address without TLS',
  )
  return bundle
}

const maxBytes = 64 * 1024 * 1024

function read(stateDir: string, name: string): string {
  const path = join(stateDir, name)
  if (!existsSync(path)) throw new Error(`${path} does not exist`)
  if (statSync(path).size > maxBytes) throw new Error(`${path} has more than ${maxBytes} bytes`)
  return readFileSync(path, 'utf8')
}

/** Returns the address and the password of the Redis, and the credentials of merchants. */
function readStateSecrets(stateDir: string): readonly string[] {
  const address = existsSync(join(stateDir, 'redis-url')) ? read(stateDir, 'redis-url').trim() : ''
  const password = URL.parse(address)?.password ?? ''
  const folder = join(stateDir, 'secrets')
  const files = existsSync(folder) ? readdirSync(folder) : []
  const entries = files.flatMap(file => listTexts(JSON.parse(read(folder, file)).stringData))
  return [address, password, decodeURIComponent(password), ...entries]
}

/** Lists the texts in a value, as they are and decoded from base64. */
function listTexts(value: unknown): readonly string[] {
  if (typeof value === 'string')
    return [value, value.trim(), Buffer.from(value, 'base64').toString('utf8').trim()]
  if (Array.isArray(value)) return value.flatMap(listTexts)
  return isObject(value) ? Object.values(value).flatMap(listTexts) : []
}
