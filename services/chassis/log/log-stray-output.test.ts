import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

/** Returns the output of a program that calls `logStrayOutput` first. */
function runProgram(body: string): readonly string[] {
  const source = `
    import { createLog } from '${new URL('./log.ts', import.meta.url)}'
    import { logStrayOutput } from '${new URL('./log-stray-output.ts', import.meta.url)}'
    logStrayOutput(createLog({ level: 'debug', format: 'json' }))
    ${body}`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', source])
  assert.equal(stdout.toString(), '')
  return stderr.toString().trimEnd().split('\n')
}

const readLine = (line: string) => {
  const { '@timestamp': time, ...fields } = JSON.parse(line) as Record<string, string>
  assert.ok(time)
  return fields
}

test('output of libraries becomes lines of the log', () => {
  const lines = runProgram(`
    console.error('E Connection to %s\\nwas closed', 'here')
    console.log({ a: 1 })
    console.debug('details')`)
  assert.deepEqual(lines.map(readLine), [
    { level: 'warn', '@message': 'report library output', text: 'E Connection to here\nwas closed' },
    { level: 'info', '@message': 'report library output', text: '{ a: 1 }' },
    { level: 'debug', '@message': 'report library output', text: 'details' },
  ])
})

test('warnings of Node become lines of the log', () => {
  const lines = runProgram(`
    import { EventEmitter } from 'node:events'
    const emitter = new EventEmitter()
    for (let count = 0; count <= EventEmitter.defaultMaxListeners; count++) emitter.on('x', () => {})
    process.emitWarning('do not use it', 'DeprecationWarning', 'DEP0000')`)
  const [leak, deprecation] = lines.map(readLine)
  assert.equal(lines.length, 2)
  assert.equal(leak?.['name'], 'MaxListenersExceededWarning')
  assert.deepEqual(deprecation, {
    level: 'warn',
    '@message': 'report Node warning',
    name: 'DeprecationWarning',
    code: 'DEP0000',
    reason: 'do not use it',
  })
})
