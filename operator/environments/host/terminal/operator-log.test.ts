import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOperatorLog } from './operator-log.ts'

function openLog() {
  const file: string[] = []
  const shown: string[] = []
  const log = createOperatorLog({
    level: 'debug',
    file: { write: line => file.push(line) },
    print: text => shown.push(text),
  })
  return { log, file, shown }
}

test('the file gets all lines of the operator, and the terminal its warnings and errors', () => {
  const { log, file, shown } = openLog()
  log.debug('one')
  log.info('two level=error')
  log.warn('three')
  log.error('four')
  assert.equal(file.length, 4)
  assert.deepEqual(
    shown.map(line => line.replace(/time=\S+/, 'time')),
    ['operator    time level=warn msg=three\n', 'operator    time level=error msg=four\n'],
  )
})

test('the terminal shows the warnings and errors of processes', () => {
  const time = '2026-01-01T00:00:00.000Z'
  const table: readonly [string, string, boolean][] = [
    ['ratelimit-0', `time=${time} level=info msg=serving`, false],
    ['ratelimit-0', `time=${time} level=debug msg="level=error"`, false],
    ['ratelimit-0', `time=${time} level=warn msg="level=info"`, true],
    ['ratelimit-10', `time=${time} level=error msg=no`, true],
    ['ratelimit-0', `{"level":"info","@timestamp":"${time}","@message":"serving"}`, false],
    ['ratelimit-0', `{"level":"error","@timestamp":"${time}","@message":"no"}`, true],
    ['ratelimit-0', 'TypeError: a defect', true],
    ['ratelimit-0', '', false],
    ['redis', '1:M 01 Jan 2026 00:00:00.000 # WARNING Memory overcommit must be enabled!', false],
  ]
  for (const [source, text, isShown] of table) {
    const { log, file, shown } = openLog()
    log.fromProcess({ source, text })
    assert.deepEqual(file, [`${source.padEnd(11)} ${text}\n`])
    assert.equal(shown.length, isShown ? 1 : 0, text)
  }
})
