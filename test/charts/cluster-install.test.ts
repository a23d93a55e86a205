import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { architecture } from '../../images/make-image.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'

const nodesOf = (found: string) =>
  JSON.stringify({ items: [{ metadata: {}, spec: {}, status: { nodeInfo: { architecture: found } } }] })

/** Programs as scripts, and the error of the command. test/e2e installs into a real cluster. */
const errors: readonly (readonly [programs: Readonly<Record<string, string>>, error: RegExp])[] = [
  [{}, /cluster-install: kubectl is not on the PATH; .*https:\/\/kubernetes\.io/],
  [{ kubectl: 'exit 1' }, /cluster-install: helm is not on the PATH; .*https:\/\/helm\.sh/],
  [
    { kubectl: 'exit 1', helm: '' },
    /the kubeconfig has no current context; set KUBECONFIG, or create a cluster/,
  ],
  [
    { kubectl: '[ "$1" = config ] && echo kind-dev && exit; echo refused >&2; exit 1', helm: '' },
    /the cluster of the context kind-dev does not answer: refused; start the cluster, or choose another one/,
  ],
  [
    { kubectl: `[ "$1" = config ] && echo kind-dev || echo '${nodesOf('s390x')}'`, helm: '', kind: '' },
    /the context kind-dev has nodes of s390x, and this machine makes images for/,
  ],
  [
    { kubectl: `[ "$1" = config ] && echo production || echo '${nodesOf(architecture)}'`, helm: '' },
    /the context production is none of kind, .*REGISTRY=/,
  ],
]

for (const [programs, error] of errors) {
  test(`make cluster-install ends with ${error.source}`, () => {
    const folder = temporaryFolder('install')
    for (const [name, script] of Object.entries(programs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`)
      chmodSync(join(folder, name), 0o755)
    }
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'charts/cluster-install.ts')], {
      encoding: 'utf8',
      env: { PATH: folder },
    })
    assert.match(stderr, error)
    assert.equal(status, 1)
  })
}
