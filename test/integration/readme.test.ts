import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startProgram } from '../support/program.ts'
import { missingProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'

const readme = readFileSync(join(root, 'README.md'), 'utf8')

/** The commands of the README's n-th shell block, comments left out. */
function readCommands(block: number): string[] {
  const blocks = [...readme.matchAll(/```sh\n(.*?)```/gs)].map(match => match[1] ?? '')
  const lines = (blocks[block] ?? '').split('\n')
  return lines.filter(line => line !== '' && !line.startsWith('#'))
}

/**
 * The long form installs everything as the lockfile says; the short form uses the installed packages of this
 * checkout.
 */
const installs = process.env['SOAK'] === '1'

/** Links the installed packages of third parties, and the clone's own. */
function linkModules(place: string): void {
  const [present, made] = [root, place].map(folder => join(folder, 'node_modules')) as [string, string]
  mkdirSync(made)
  for (const name of readdirSync(present)) {
    if (name === '@tollway' || name.startsWith('.'))
      cpSync(join(present, name), join(made, name), { recursive: true, verbatimSymlinks: true })
    else symlinkSync(join(present, name), join(made, name))
  }
  const now = new Date()
  utimesSync(join(made, '.package-lock.json'), now, now)
}

const skip = missingProgram('git') || missingProgram('curl')

test('the commands of the README work from a clean clone', { skip, timeout: 180_000 }, async t => {
  const place = temporaryFolder('readme')
  execFileSync('git', ['clone', '--quiet', root, place])
  if (!installs) linkModules(place)
  const [run = ''] = readCommands(0)
  assert.equal(run, 'make run')
  // A separate process group, so that all that it started can be ended together, as a terminal does.
  const tollway = startProgram('bash', ['-c', run], { cwd: place, detached: true })
  t.after(async () => {
    await tollway.end('SIGKILL')
  })
  await tollway.said('Ctrl-C ends every process', 120_000)

  const shell = (command: string) => {
    try {
      return execFileSync('bash', ['-c', command], { cwd: place, encoding: 'utf8', stdio: 'pipe' })
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string }
      throw new Error(`${command}\n${stdout}\n${stderr}`)
    }
  }
  const [curl = '', tryCommand = '', status = ''] = readCommands(1)
  const codes = Array.from({ length: 5 }, () =>
    shell(curl.replace('curl', 'curl -s -o /dev/null -w "%{http_code}"')),
  )
  assert.ok(codes.includes('200') && codes.includes('429'), `the curl was answered ${codes}`)
  assert.match(shell(tryCommand), /3\/minute/)
  assert.match(shell(status), /checkout/)
  process.kill(-tollway.pid, 'SIGINT')
  await tollway.exited()
  assert.throws(() => shell(curl), /Connection refused|Failed to connect/)
})
