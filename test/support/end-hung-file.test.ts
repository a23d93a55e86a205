import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { isRunning } from './running-processes.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { waitFor } from './wait-for.ts'

const support = (file: string) => pathToFileURL(join(import.meta.dirname, file)).href

/** Runs a test file as `make test` does. Resolves with its exit code and output when it has ended. */
function runTestFile(source: string, graceMs: number) {
  const file = join(temporaryFolder('left-open'), 'left.test.ts')
  writeFileSync(file, source)
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env
  const args = ['--import', support('end-hung-file.ts'), '--test', '--test-reporter=tap', file]
  const options = { env: { ...inherited, HUNG_FILE_MS: String(graceMs) }, timeout: 60_000 }
  return new Promise<{ code: unknown; output: string }>(resolve => {
    execFile(process.execPath, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, output: stdout + stderr }),
    )
  })
}

/** Waits until the process that the file left has ended. */
async function assertEnded(output: string): Promise<void> {
  const [, pid] = /left process (\d+)/.exec(output) ?? []
  assert.ok(pid !== undefined, output)
  await waitFor('the end of the process', () => !isRunning(Number(pid)))
}

test('a file whose failed test leaves handles open ends, fails, and reports each of them', async () => {
  const { code, output } = await runTestFile(
    `
    import { spawn } from 'node:child_process'
    import { once } from 'node:events'
    import { createServer } from 'node:http'
    import { test } from 'node:test'
    test('fails before it closes anything', async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      setInterval(() => {}, 1_000)
      const child = spawn('sleep', ['600'], { stdio: 'ignore' })
      console.log('left process ' + child.pid)
      throw new Error('the assertion')
    })
    test('passes', () => {})
    `,
    300,
  )
  assert.equal(code, 1, output)
  assert.match(output, /not ok \d+ - fails before it closes anything/)
  assert.match(output, /ok \d+ - passes/)
  assert.match(
    output,
    /end .*left\.test\.ts: it is alive 0\.3 s after its last test, since a test left open: /,
  )
  assert.match(output, /Server {"address":"127\.0\.0\.1","family":"IPv4","port":\d+}/)
  assert.match(output, /program sleep 600/)
  assert.match(output, /\(.*Timeout.*\)/)
  await assertEnded(output)
})

test('a program that a failed test leaves running is killed, and the file ends by itself', async () => {
  const { code, output } = await runTestFile(
    `
    import { test } from 'node:test'
    import { startProgram } from '${support('program.ts')}'
    test('fails before it ends the program', () => {
      console.log('left process ' + startProgram('sleep', ['600']).pid)
      throw new Error('the assertion')
    })
    `,
    30_000,
  )
  assert.equal(code, 1, output)
  assert.doesNotMatch(output, /left open/)
  await assertEnded(output)
})
