import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startProgram } from '../test/support/program.ts'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { makeLauncher } from './launcher.ts'

/**
 * Runs a program by its launcher until it is ready, and sends the signal. Resolves with how the process
 * ended.
 */
async function endBySignal(program: string, signal: 'SIGTERM' | 'SIGINT'): Promise<number | string> {
  const place = temporaryFolder('launcher')
  const module = join(place, 'program.mjs')
  const launcher = join(place, 'launcher')
  writeFileSync(module, `${program}\nconsole.log('there'); setInterval(() => {}, 1000)`)
  writeFileSync(launcher, makeLauncher(module))
  const run = startProgram(process.execPath, [launcher])
  await run.said('there')
  return run.end(signal)
}

test('a signal ends a program that does not handle it yet, also as process 1 of a container', async () => {
  // Without a handler, the process would end by the signal itself, or not at all as the first process of a
  // container.
  assert.equal(await endBySignal('', 'SIGTERM'), 143)
  assert.equal(await endBySignal('', 'SIGINT'), 130)
})

test('a program that handles its signals chooses its own end', async () => {
  const slowly = "process.on('SIGTERM', () => setTimeout(() => process.exit(7), 50))"
  assert.equal(await endBySignal(slowly, 'SIGTERM'), 7)
})
