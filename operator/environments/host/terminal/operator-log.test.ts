import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { createOperatorLog, openLogFile } from './operator-log.ts'

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
    ['ratelimit-0', `time=${time} level=info msg="start service"`, false],
    ['ratelimit-0', `time=${time} level=debug msg="level=error"`, false],
    ['ratelimit-0', `time=${time} level=warn msg="level=info"`, true],
    ['ratelimit-10', `time=${time} level=error msg=no`, true],
    ['ratelimit-0', `{"level":"info","@timestamp":"${time}","@message":"start service"}`, false],
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

function place(): string {
  const folder = temporaryFolder('log')
  return join(folder, 'state', 'tollway.log')
}

const read = (path: string) => readFileSync(path, 'utf8')

test('lines are appended, also after a restart, to a file that only its owner can read', () => {
  const path = place()
  openLogFile(path).write('one\n')
  openLogFile(path).write('two\n')
  assert.equal(read(path), 'one\ntwo\n')
  assert.equal(statSync(path).mode & 0o777, 0o600)
})

test('a full file replaces the older one, and no line is split', () => {
  const path = place()
  const file = openLogFile(path, 10)
  for (const line of ['aaaa\n', 'bbbb\n', 'cccc\n']) file.write(line)
  assert.equal(read(`${path}.1`), 'aaaa\nbbbb\n')
  assert.equal(read(path), 'cccc\n')
  for (const line of ['dddd\n', 'eeee\n']) file.write(line)
  assert.equal(read(`${path}.1`), 'cccc\ndddd\n')
  assert.equal(read(path), 'eeee\n')
})

test('lines from before a restart count, in bytes', () => {
  const path = place()
  openLogFile(path, 10).write('äääää')
  openLogFile(path, 10).write('b')
  assert.equal(read(`${path}.1`), 'äääää')
  assert.equal(read(path), 'b')
})

test('a line longer than the limit has its own file', () => {
  const path = place()
  const file = openLogFile(path, 4)
  file.write('a line\n')
  assert.ok(!existsSync(`${path}.1`))
  file.write('b\n')
  assert.equal(read(`${path}.1`), 'a line\n')
})

test('lines that cannot be written are counted in the next one that can', () => {
  const path = place()
  const file = openLogFile(path)
  mkdirSync(path, { recursive: true })
  file.write('one\n')
  file.write('two\n')
  rmdirSync(path)
  file.write('three\n')
  file.write('four\n')
  assert.match(read(path), /^2 lines could not be written: EISDIR.*\nthree\nfour\n$/)
})
