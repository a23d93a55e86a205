import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { temporaryFolder } from '../test/support/temporary-folder.ts'

const program = join(import.meta.dirname, 'generate.ts')
const file = 'tollway.dev_ratelimitconfigs.yaml'

function generate(...args: readonly string[]): { readonly status: number | null; readonly said: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })
  return { status, said: stdout + stderr }
}

it('the manifests on disk are up to date', () => {
  assert.deepEqual(generate('--check'), { status: 0, said: '' })
})

it('the generator reports stale and missing files, and writes them again', () => {
  const folder = temporaryFolder('manifests')
  const missing = generate('--check', folder)
  assert.equal(missing.status, 1)
  assert.match(missing.said, new RegExp(`${file} is not what .* makes`))

  assert.match(generate(folder).said, /^wrote /)
  assert.equal(generate('--check', folder).status, 0)
  assert.equal(generate(folder).said, '')

  appendFileSync(join(folder, file), '# changed by hand\n')
  assert.equal(generate('--check', folder).status, 1)
})
