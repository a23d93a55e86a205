import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { openLogFile } from './log-file.ts'

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
