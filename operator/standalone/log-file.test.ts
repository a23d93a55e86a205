import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openLogFile } from './log-file.ts'

function place(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'log-'))
  t.after(() => rmSync(folder, { recursive: true }))
  return join(folder, 'state', 'tollway.log')
}

const read = (path: string) => readFileSync(path, 'utf8')

test('lines are appended, over a restart too, for the eyes of their owner only', t => {
  const path = place(t)
  openLogFile(path).write('one\n')
  openLogFile(path).write('two\n')
  assert.equal(read(path), 'one\ntwo\n')
  assert.equal(statSync(path).mode & 0o777, 0o600)
})

test('a full file takes the place of the one before, and no line is split', t => {
  const path = place(t)
  const file = openLogFile(path, 10)
  for (const line of ['aaaa\n', 'bbbb\n', 'cccc\n']) file.write(line)
  assert.equal(read(`${path}.1`), 'aaaa\nbbbb\n')
  assert.equal(read(path), 'cccc\n')
  for (const line of ['dddd\n', 'eeee\n']) file.write(line)
  assert.equal(read(`${path}.1`), 'cccc\ndddd\n')
  assert.equal(read(path), 'eeee\n')
})

test('what was written before a restart counts, in bytes', t => {
  const path = place(t)
  openLogFile(path, 10).write('äääää')
  openLogFile(path, 10).write('b')
  assert.equal(read(`${path}.1`), 'äääää')
  assert.equal(read(path), 'b')
})

test('a line longer than the limit has a file of its own', t => {
  const path = place(t)
  const file = openLogFile(path, 4)
  file.write('a line\n')
  assert.ok(!existsSync(`${path}.1`))
  file.write('b\n')
  assert.equal(read(`${path}.1`), 'a line\n')
})

test('lines that cannot be written end nothing, and are counted in the next one that can', t => {
  const path = place(t)
  const file = openLogFile(path)
  mkdirSync(path, { recursive: true })
  file.write('one\n')
  file.write('two\n')
  rmdirSync(path)
  file.write('three\n')
  file.write('four\n')
  assert.match(read(path), /^2 lines could not be written: EISDIR.*\nthree\nfour\n$/)
})
