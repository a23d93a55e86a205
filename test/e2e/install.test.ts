import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { helm, isReady, pods } from './cluster.ts'
import { createFigures } from './figures.ts'
import { ensureInstalled, system } from './release.ts'

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

describe('an install in a cluster', { skip, timeout: 300_000 }, () => {
  const figures = createFigures('install')
  after(() => figures.write())

  it('ends when every process is ready', async () => {
    const ms = await ensureInstalled()
    if (ms !== undefined) figures.note('helm install → all Ready', '< 30 s', `${(ms / 1000).toFixed(1)} s`)
    const processes = { 'tollway-operator': 2, ratelimit: 3, broker: 2, payments: 2 }
    for (const [name, count] of Object.entries(processes)) {
      const found = await pods(system, `app.kubernetes.io/name=${name}`)
      assert.equal(found.filter(isReady).length, count, name)
    }
  })

  it('passes the test of its chart', async () => {
    await helm('test', 'tollway', '-n', system, '--timeout', '120s')
  })
})
