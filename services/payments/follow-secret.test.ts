import assert from 'node:assert/strict'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { watchSecret } from './follow-secret.ts'

test('the secret is that of the file, and the previous one while the file has none', () => {
  const folder = temporaryFolder('follow-secret')
  const path = join(folder, 'token')
  const warnings: string[] = []
  const secret = watchSecret({ first: 'first', path, onWarning: text => warnings.push(text) })
  const steps: readonly (readonly [change: () => void, expected: string, warnings: number])[] = [
    [() => {}, 'first', 1],
    [() => {}, 'first', 1],
    [() => writeFileSync(path, 'second\n'), 'second', 1],
    [() => writeFileSync(path, ''), 'second', 2],
    [() => writeFileSync(path, 'x'.repeat(5_000)), 'second', 3],
    [() => writeFileSync(`${path}.new`, 'third'), 'second', 3],
    [() => renameSync(`${path}.new`, path), 'third', 3],
    [() => rmSync(path), 'third', 4],
  ]
  for (const [change, expected, count] of steps) {
    change()
    assert.equal(secret(), expected)
    assert.equal(warnings.length, count, warnings.join('\n'))
  }
  assert.match(warnings[0] ?? '', /token: cannot be read: ENOENT; the secret before it is still used$/)
  assert.doesNotMatch(warnings.join('\n'), /second|third|xxx/)
})
