import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/temporary-folder.ts'

function run(args: readonly string[], env: Readonly<Record<string, string>>) {
  const program = join(import.meta.dirname, 'run.ts')
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    encoding: 'utf8',
    env,
  })
  return { status, stdout, stderr }
}

/** A folder with programs of these names that fail. */
function programs(...names: readonly string[]): string {
  const folder = temporaryFolder('e2e')
  for (const name of names) {
    writeFileSync(join(folder, name), '#!/bin/sh\nexit 1\n')
    chmodSync(join(folder, name), 0o755)
  }
  return folder
}

test('without a cluster the program reports what is missing; with REQUIRE_SERVERS=1 it fails', () => {
  const nothing = { PATH: programs() }
  const { status, stderr } = run([], nothing)
  assert.equal(status, 0)
  assert.match(stderr, /^SKIPPED: .*kubectl and helm and docker and kind not found.*KUBECONFIG/)
  assert.equal(run([], { ...nothing, REQUIRE_SERVERS: '1' }).status, 1)
  assert.match(run([], { ...nothing, KUBECONFIG: '/a' }).stderr, /^SKIPPED: .*: kubectl and helm not found/)
})

test('a Docker that does not answer counts as missing', () => {
  const { status, stderr } = run([], { PATH: programs('kubectl', 'helm', 'docker', 'kind') })
  assert.equal(status, 0)
  assert.match(stderr, /^SKIPPED: .*Docker does not answer/)
})

test('the program prints its help, and rejects unknown options', () => {
  assert.match(run(['--help'], {}).stdout, /\nExamples:\n {2}make e2e\n/)
  const wrong = run(['--kep'], {})
  assert.equal(wrong.status, 2)
  assert.match(wrong.stderr, /--kep/)
})
