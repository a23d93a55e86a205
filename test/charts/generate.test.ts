import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../support/tollway.ts'

test('the generated parts of the chart are up to date', () => {
  const program = join(root, 'charts/generate.ts')
  const { status, stderr } = spawnSync(process.execPath, [program, '--check'], {
    cwd: root,
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
})
