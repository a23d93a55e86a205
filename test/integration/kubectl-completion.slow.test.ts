import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, test } from 'node:test'
import { createCompletingShells } from '../support/completing-shells.ts'
import { missingKubeAssets } from '../support/kube-api-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'

/** kubectl's own script for bash needs the functions of this package. */
const bashCompletion = '/usr/share/bash-completion/bash_completion'
const folder = temporaryFolder('kubectl-completion')
const path = [join(root, 'node_modules/.bin'), process.env['KUBE_ASSETS'], process.env['PATH']]

const { replyOfBash, lineOfZsh, candidatesOfFish } = createCompletingShells({
  name: 'kubectl',
  folder,
  env: { ...process.env, PATH: path.join(delimiter), HOME: folder, KUBECONFIG: join(folder, 'none') },
  setup: {
    bash: `source ${bashCompletion}; source <(kubectl completion bash)`,
    zsh: 'source <(kubectl completion zsh)',
    fish: 'kubectl completion fish | source',
  },
  bashFunction: '__start_kubectl',
})

describe('completion of kubectl tollway in real shells', { skip: missingKubeAssets() }, () => {
  test('bash completes commands and options', t => {
    if (!existsSync(bashCompletion)) {
      assert.notEqual(process.env['REQUIRE_SERVERS'], '1', `${bashCompletion} is missing`)
      t.skip('the package bash-completion is not installed')
      return
    }
    assert.deepEqual(replyOfBash('tollway', 'vali'), ['validate'])
    assert.deepEqual(replyOfBash('tollway', 'counters', 're'), ['reset'])
    assert.deepEqual(replyOfBash('tollway', 'status', '--tollway-n'), ['--tollway-namespace'])
  })

  test('zsh completes commands and options', t => {
    if (!requireProgram(t, 'zsh')) return
    assert.equal(lineOfZsh('kubectl tollway vali'), 'kubectl tollway validate ')
    assert.equal(lineOfZsh('kubectl tollway counters re'), 'kubectl tollway counters reset ')
    const option = 'kubectl tollway status --tollway-namespace '
    assert.equal(lineOfZsh('kubectl tollway status --tollway-n'), option)
  })

  test('fish completes commands and options', t => {
    if (!requireProgram(t, 'fish')) return
    assert.deepEqual(candidatesOfFish('kubectl tollway vali'), ['validate'])
    assert.deepEqual(candidatesOfFish('kubectl tollway counters re'), ['reset'])
    assert.deepEqual(candidatesOfFish('kubectl tollway status --tollway-n'), ['--tollway-namespace'])
  })
})
