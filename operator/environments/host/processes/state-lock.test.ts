import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'
import { lockStateDir } from './state-lock.ts'

test('only one process at a time can lock the state folder', () => {
  const parent = temporaryFolder('tollway-lock')
  const folder = join(parent, 'not/there/yet')
  const lock = lockStateDir(folder, 4711)
  assert.throws(() => lockStateDir(folder, 4712), {
    name: 'InfrastructureError',
    message:
      `the state folder ${folder} is in use by process 4711: stop that operator, or choose another folder ` +
      'with --state-dir',
  })
  lock.release()
  lock.release()
  const next = lockStateDir(folder, 4713)
  assert.throws(() => lockStateDir(folder), /in use by process 4713/)
  next.release()
})

test('a folder that cannot be locked is reported with the cause and a fix', () => {
  const parent = temporaryFolder('tollway-lock')
  writeFileSync(join(parent, 'file'), '')
  mkdirSync(join(parent, 'folder'))
  writeFileSync(join(parent, 'folder/operator.lock'), 'something else than a database, and long enough')
  const cases: [string, RegExp][] = [
    ['file', /file cannot be locked: it is a file, not a folder: choose another folder with --state-dir$/],
    ['file/below', /below cannot be locked: it is a file, not a folder/],
    ['folder', /folder cannot be locked: its file operator\.lock was written by something else: remove that/],
  ]
  for (const [path, message] of cases) {
    assert.throws(() => lockStateDir(join(parent, path)), { name: InfrastructureError.name, message })
  }
})
