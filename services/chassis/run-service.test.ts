import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProgram } from '../../test/support/program.ts'

const here = (file: string) => new URL(file, import.meta.url).href

/** Starts a service whose program has these lines of code, with this environment. */
function startService(program: string, env: Readonly<Record<string, string>> = {}) {
  const source = `
    import { logSettings } from '${here('./log/log-settings.ts')}'
    import { runService } from '${here('./run-service.ts')}'
    import { integer, settingsTable } from '${here('./settings.ts')}'
    const port = { name: 'PORT', kind: integer(1, 65535), fallback: '80', help: '' }
    const settings = settingsTable({ ...logSettings('info'), port })
    const running = { async stop() { process.stderr.write('stopped\\n') } }
    const forever = setInterval(() => {}, 1000)
    await runService({ settings, ${program} })
    process.stderr.write('started\\n')`
  const args = ['--input-type=module-typescript', '-e', source]
  return startProgram(process.execPath, args, { env })
}

test('a signal stops a service, which then exits with code 0', async () => {
  const program = startService('start: async () => running')
  await program.said('started')
  assert.equal(await program.end('SIGTERM'), 0)
  assert.match(program.output(), /msg="stop service".*stopped/s)
})

test('a signal stops a service whose start is not complete', async () => {
  const program = startService(
    "start: async (_, log) => { log.info('waits'); return { ...running, started: new Promise(() => {}) } }",
  )
  await program.said('waits')
  assert.equal(await program.end('SIGINT'), 0)
  assert.match(program.output(), /stopped/)
  assert.doesNotMatch(program.output(), /started/)
})

test('each setting that is not allowed is reported, and the service does not start', async () => {
  const program = startService("start: async () => { throw new Error('unreachable') }", {
    PORT: 'x',
    LOG_LEVEL: 'loud',
  })
  assert.equal(await program.exited(), 78)
  assert.match(program.output(), /^LOG_LEVEL: "loud" is not allowed: .*\nPORT: "x" is not allowed: .*\n$/)
})

test('settings that do not fit together are reported', async () => {
  const program = startService(
    "findProblems: ({ port }) => [{ name: 'PORT', message: port + ' is taken' }], start: async () => running",
  )
  assert.equal(await program.exited(), 78)
  assert.equal(program.output(), 'PORT: 80 is taken\n')
})

for (const [how, start] of [
  ['rejects', "async () => { throw new Error('no disk') }"],
  ['rejects later', "async () => ({ ...running, started: Promise.reject(new Error('no disk')) })"],
]) {
  test(`a start that ${how} is logged, and the service exits with code 1`, async () => {
    const program = startService(`start: ${start}`)
    assert.equal(await program.exited(), 1)
    assert.match(program.output(), /msg="start service failed" reason="no disk"/)
  })
}

test('an unexpected error is logged as the program describes it', async () => {
  const program = startService(
    "start: async () => { setTimeout(() => { throw new Error('secret') }, 1); return running }, " +
      "describeError: () => 'described'",
  )
  assert.equal(await program.exited(), 1)
  assert.match(program.output(), /msg="run service failed" error=described/)
  assert.doesNotMatch(program.output(), /secret/)
})
